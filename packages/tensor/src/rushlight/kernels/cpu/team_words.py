"""The words (int64) that the threads of `team` share: which place means what.

| word | meaning |
| --- | --- |
| CLAIMED | 1 while a job has the team |
| OPEN | 1 while there may be pieces left: threads may join |
| ACTIVE | threads that joined; the job's words stay until it is 0 |
| JOB | a number that changes with each job |
| ENDED | the time of the end of the last job, in cycles |
| KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS... | the job |
| ASLEEP + i | 1 when thread i sleeps, or is about to; who makes a 0 of it wakes the thread |
| LOCK + i | the address of the lock on which thread i sleeps |
| NEXT + 8 i | the next piece of share i |

Words that different threads write to often lie in different cache lines.

A job by itself is an array: KERNEL to EACH in that order, then, at HELPERS, how many threads help with it, and, at
LONG, whether it is worth waking them.
"""

from __future__ import annotations

CLAIMED, OPEN, ACTIVE, JOB, ENDED = 0, 8, 16, 24, 25
KERNEL, COUNT, N, SIZE, SHARES, EACH, ARGUMENTS = 32, 33, 34, 35, 36, 37, 40
ASLEEP, LOCK, NEXT = 64, 320, 576

HELPERS, LONG = 6, 7
DONE, TAKEN = 0, 1  # what a launch answers

# Cycles (0.3..0.5 ns) that a thread looks for the next job before it sleeps: programs call large operations in rows,
# with 10..100 us of Python between them. A thread that sleeps comes 15 us late, or 50.
PATIENCE = 600_000
# Who finds so many cycles gone between two looks had no processor meanwhile: other programs need it.
INTERRUPTED = 60_000

MOST_ARGUMENTS = ASLEEP - ARGUMENTS
MOST_THREADS = LOCK - ASLEEP
WORDS = NEXT + 8 * MOST_THREADS
