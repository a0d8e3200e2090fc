"""Prints an expression graph as a grid-stride loop for numba's CUDA compiler.

`kernel(n, layout, out0, in0, ...)`: every argument but `n` is a 1-D device array. `layout` holds the sizes of the
merged dimensions, then for each operand its offset and its strides in elements. Each thread takes elements `grid(1)`,
`grid(1) + gridsize(1)`, and so on, and finds its place in memory from the flat index: any strides, any broadcasting,
one kernel per rank.

The operations are printed by `rushlight.kernels.source`, as for the CPU; only the loop around them differs.
"""

from __future__ import annotations

from rushlight.kernels.source import emit
from rushlight.kernels.trace import Program


def kernel_source(program: Program, rank: int) -> str:
    """Source of the kernel for operands that walk through `rank` dimensions."""
    outs = [f"out{k}" for k in range(len(program.outputs))]
    ins = [f"in{k}" for k in range(len(program.inputs))]
    lines = [f"def kernel(n, layout, {', '.join(outs + ins)}):"]
    lines += [f"    n{d} = layout[{d}]" for d in range(rank)]
    position = rank
    for name in outs + ins:
        lines.append(f"    {name}_at = layout[{position}]")
        lines += [f"    {name}_s{d} = layout[{position + 1 + d}]" for d in range(rank)]
        position += 1 + rank
    lines += ["    for i in range(cuda.grid(1), n, cuda.gridsize(1)):", "        rest = i"]
    for d in reversed(range(1, rank)):
        lines += [f"        k{d} = rest % n{d}", f"        rest = rest // n{d}"]
    lines.append("        k0 = rest")
    place = {name: " + ".join([f"{name}_at", *(f"k{d} * {name}_s{d}" for d in range(rank))]) for name in outs + ins}
    lines += [f"        x{k} = {name}[{place[name]}]" for k, name in enumerate(ins)]
    computation, results = emit(program, [f"x{k}" for k in range(len(ins))])
    lines += [f"        {line}" for line in computation]
    lines += [f"        {name}[{place[name]}] = {result}" for name, result in zip(outs, results, strict=True)]
    return "\n".join(lines) + "\n"
