"""The words (int64) that the threads of `team` share: which place means what.

| word | meaning |
| --- | --- |
| CLAIMED | 1 while a job has the team |
| OPEN | 1 while there may be pieces left: threads may join |
| ACTIVE | threads that joined; the job's words stay until it is 0 |
| JOB | a number that changes with each job |
| KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS... | the job |
| ASLEEP + i | 1 when thread i sleeps, or is about to |
| NEXT + 8 i | the next piece of share i |

Words that different threads write to lie in different cache lines.

A job by itself is an array: KERNEL to EACH in that order, then, at AWAKE, how many threads must not sleep when it is
launched.
"""

from __future__ import annotations

CLAIMED, OPEN, ACTIVE, JOB = 0, 8, 16, 24
KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS = 32, 33, 34, 35, 36, 37, 40
ASLEEP, NEXT = 64, 320

AWAKE = 6
DONE, TAKEN, SLEEPING = 0, 1, 2  # what a launch answers

MOST_ARGUMENTS = ASLEEP - ARGUMENTS
MOST_THREADS = NEXT - ASLEEP
WORDS = NEXT + 8 * MOST_THREADS
