"""The words (int64) that the threads of `team` share: which place means what.

| word | meaning |
| --- | --- |
| CLAIMED | 1 while a job owns the team |
| OPEN | 1 while there may be pieces left: threads may join |
| ACTIVE | threads that joined; the job's words stay until it is 0 |
| JOB | a number that changes with each job |
| KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS... | the job |
| ASLEEP + i | 1 when thread i sleeps, or is about to |
| NEXT + 8 i | the next piece of share i |

Words that different threads write to lie in different cache lines.
"""

from __future__ import annotations

CLAIMED, OPEN, ACTIVE, JOB = 0, 8, 16, 24
KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS = 32, 33, 34, 35, 36, 37, 40
ASLEEP, NEXT = 64, 320

MOST_ARGUMENTS = ASLEEP - ARGUMENTS
MOST_THREADS = NEXT - ASLEEP
WORDS = NEXT + 8 * MOST_THREADS
