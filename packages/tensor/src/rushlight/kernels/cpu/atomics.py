"""Instructions for threads: atomic words, waiting, calling a kernel by its address.

The words that threads share are int64 elements behind one pointer.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.language import ADDRESS, INT, declared, intrinsic, on_stack, types
from rushlight.kernels.cpu.team_words import MOST_ARGUMENTS


@intrinsic
def atomic_load(typingctx: Any, words: Any, index: Any) -> Any:
    """Reads a word; what other threads wrote before they stored it is seen after."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "seq_cst", 8)

    return types.int64(words, types.int64), codegen


@intrinsic
def atomic_store(typingctx: Any, words: Any, index: Any, value: Any) -> Any:
    """Writes a word, after everything that this thread wrote before."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[2], builder.gep(args[0], [args[1]]), "seq_cst", 8)

    return types.void(words, types.int64, types.int64), codegen


@intrinsic
def atomic_add(typingctx: Any, words: Any, index: Any, value: Any) -> Any:
    """Adds, and returns the former value."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "seq_cst")

    return types.int64(words, types.int64, types.int64), codegen


@intrinsic
def atomic_claim(typingctx: Any, words: Any, index: Any) -> Any:
    """Turns a 0 into a 1; whether it was this call that did."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero, one = ir.Constant(INT, 0), ir.Constant(INT, 1)
        pair = builder.cmpxchg(builder.gep(args[0], [args[1]]), zero, one, "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(words, types.int64), codegen


@intrinsic
def atomic_swap(typingctx: Any, words: Any, index: Any, value: Any) -> Any:
    """Writes a word, and returns what it was."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", builder.gep(args[0], [args[1]]), args[2], "seq_cst")

    return types.int64(words, types.int64, types.int64), codegen


@intrinsic
def lock(typingctx: Any, address: Any) -> Any:
    """Takes the Python lock at an address; sleeps until it is free. Python's locks need neither the GIL nor the thread
    that took them, and a waiting thread costs nothing."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ADDRESS, ir.IntType(32)])
        acquire = declared(builder.module, kind, "PyThread_acquire_lock")
        builder.call(acquire, [builder.inttoptr(args[0], ADDRESS), ir.Constant(ir.IntType(32), 1)])

    return types.void(types.int64), codegen


@intrinsic
def unlock(typingctx: Any, address: Any) -> Any:
    """Frees the Python lock at an address: a thread that sleeps in `lock` goes on."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS])
        release = declared(builder.module, kind, "PyThread_release_lock")
        builder.call(release, [builder.inttoptr(args[0], ADDRESS)])

    return types.void(types.int64), codegen


@intrinsic
def cycles(typingctx: Any) -> Any:
    """The processor's clock."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(INT, [])
        return builder.call(declared(builder.module, kind, "llvm.readcyclecounter"), [])

    return types.int64(), codegen


@intrinsic
def pause(typingctx: Any) -> Any:
    """Tells the processor that this loop waits."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> None:
        machine = platform.machine()
        if machine in ("x86_64", "AMD64"):
            name, arguments = "llvm.x86.sse2.pause", []
        elif machine in ("aarch64", "arm64"):
            name, arguments = "llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]
        else:
            return
        kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        builder.call(declared(builder.module, kind, name), arguments)

    return types.void(), codegen


@intrinsic
def call_kernel(typingctx: Any, function: Any, lo: Any, hi: Any, words: Any, first: Any, count: Any) -> Any:
    """Call the kernel at an address for [lo, hi); its `count` pointer arguments stand in words[first:].

    A kernel is what numba makes of `def kernel(lo, hi, p0, p1, ...)`: int32 f(result*, exception**, lo, hi, p0, p1,
    ...).
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function, lo, hi, words, first, count = args
        pointer = ADDRESS
        result = on_stack(builder, pointer)
        exception = on_stack(builder, pointer)
        end = builder.append_basic_block("called")
        places = [builder.add(first, ir.Constant(INT, k)) for k in range(MOST_ARGUMENTS)]
        values = [builder.inttoptr(builder.load(builder.gep(words, [place])), pointer) for place in places]
        switch = builder.switch(count, end)
        for n in range(1, MOST_ARGUMENTS + 1):
            block = builder.append_basic_block(f"arguments{n}")
            switch.add_case(ir.Constant(INT, n), block)
            with builder.goto_block(block):
                kind = ir.FunctionType(
                    ir.IntType(32), [pointer.as_pointer()] * 2 + [INT] * 2 + [pointer] * n
                )
                builder.call(builder.inttoptr(function, kind.as_pointer()), [result, exception, lo, hi, *values[:n]])
                builder.branch(end)
        builder.position_at_end(end)

    words_type = types.int64
    return types.void(types.int64, types.int64, types.int64, words, words_type, words_type), codegen


@intrinsic
def give_way(typingctx: Any) -> Any:
    """Lets other threads run on this processor, where the system has a call for it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if hasattr(os, "sched_yield"):
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(declared(builder.module, kind, "sched_yield"), [])

    return types.void(), codegen
