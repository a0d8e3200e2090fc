"""Kernels: loops made from scalar definitions.

| module | what it does |
| --- | --- |
| `trace` | scalar function -> typed expression graph (`Program`) |
| `expand`, `polynomials`, `half` | functions in simpler ones; float32 that vectorises; 16-bit floats |
| `build` | scalar function and array dtypes -> program over stored elements |
| `layout`, `source` | how a loop walks through memory; the loop as Python source |
| `cpu.jit`, `cpu.intrinsics` | source -> machine code, cached on disk; the instructions it may use |
| `cpu.elementwise`, `cpu.reduce` | kernels that are called with numpy arrays |
| `cpu.pool`, `cpu.allocator` | threads; memory for results |
| `cuda` | the same programs on a CUDA device |

llvmlite is imported when the first kernel is compiled or loaded, numba with the first one that only it knows. Importing
these modules imports neither.
"""
