"""The compiled half of `team`: what threads do without the GIL. Loaded with the first kernel that is
shared out."""

from __future__ import annotations

from rushlight.kernels.cpu.atomics import (
    atomic_add,
    atomic_claim,
    atomic_load,
    atomic_store,
    atomic_swap,
    call_kernel,
    cycles,
    give_way,
    lock,
    pause,
    unlock,
)
from rushlight.kernels.cpu.intrinsics import array_address
from rushlight.kernels.cpu.team_words import (
    ACTIVE,
    ARGUMENTS,
    ASLEEP,
    CLAIMED,
    COUNT,
    DONE,
    EACH,
    ENDED,
    HELPERS,
    INTERRUPTED,
    JOB,
    KERNEL,
    LOCK,
    LONG,
    NEXT,
    OPEN,
    PATIENCE,
    SHARES,
    SIZE,
    TAKEN,
    N,
)


def take_pieces(words, me):
    """Work off my share, then what is left of the others'. A thread keeps its share from job to job: its part of a
    tensor that goes from one operation to the next is in its cache."""
    kernel, count, n, size = words[KERNEL], words[COUNT], words[N], words[SIZE]
    shares, each = words[SHARES], words[EACH]
    for k in range(shares):
        share = (me + k) % shares
        while True:
            piece = atomic_add(words, NEXT + 8 * share, 1)
            low = (share * each + piece) * size
            if piece >= each or low >= n:
                break
            call_kernel(kernel, low, min(low + size, n), words, ARGUMENTS, count)


def work(me, words):
    """Take part in jobs for ever; sleep when there was none for a while, or when other programs need the processor."""
    since = looked = cycles()
    while True:
        if atomic_load(words, OPEN) == 0:
            before, looked = looked, cycles()
            if looked - since < PATIENCE and looked - before < INTERRUPTED:
                pause()
                continue
            atomic_store(words, ASLEEP + me, 1)
            # Look again: the caller of a job that came before the note did not see it. One that saw it frees the lock.
            if atomic_load(words, OPEN) == 0 or atomic_swap(words, ASLEEP + me, 0) == 0:
                lock(words[LOCK + me])
            since = looked = cycles()
            continue
        # Join first, look again after: a caller that closed the job before waits for us to leave, one after is seen.
        atomic_add(words, ACTIVE, 1)
        job = atomic_load(words, JOB)
        if atomic_load(words, OPEN) != 0:
            take_pieces(words, me + 1)
        atomic_add(words, ACTIVE, -1)
        while atomic_load(words, OPEN) != 0 and atomic_load(words, JOB) == job:
            pause()  # the others are in their last pieces
        since = looked = cycles()


def launch(job, words, arrays):
    """Run a job with the team. TAKEN says that another job has it."""
    if not atomic_claim(words, CLAIMED):
        return TAKEN
    for k in range(HELPERS):
        words[KERNEL + k] = job[k]
    for k in range(words[COUNT]):
        words[ARGUMENTS + k] = array_address(arrays, k)
    for share in range(words[SHARES]):
        words[NEXT + 8 * share] = 0
    atomic_add(words, JOB, 1)
    atomic_store(words, OPEN, 1)
    # Waking a thread takes as long as a short job. One by itself goes without; those that come in a row are worth it.
    wake = job[LONG] != 0 or cycles() - words[ENDED] < PATIENCE
    for me in range(job[HELPERS] if wake else 0):
        if atomic_load(words, ASLEEP + me) != 0 and atomic_swap(words, ASLEEP + me, 0) != 0:
            unlock(words[LOCK + me])
    take_pieces(words, 0)
    atomic_store(words, OPEN, 0)
    waited = 0
    while atomic_load(words, ACTIVE) != 0:
        waited += 1
        if waited > 1000:
            give_way()  # the other thread may need this very processor
        pause()
    words[ENDED] = cycles()
    atomic_store(words, CLAIMED, 0)
    return DONE
