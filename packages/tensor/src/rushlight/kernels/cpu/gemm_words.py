"""The words (int64) that describe a product to the kernels of `gemm`: which place means what.

Strides count elements. A product of a batch has two batch dimensions, entry number e is (e // INNER, e % INNER).

| word | meaning |
| --- | --- |
| M, N, K | rows of the result, columns of the result, depth: the length of the sums |
| A_ROW, A_DEPTH | strides of A, which has M rows of K |
| B_DEPTH, B_COLUMN | strides of B, which has K rows of N |
| C_ROW | row stride of the result; its columns lie side by side |
| D_ROW, D_COLUMN | strides of what is added to the product |
| A_OUTER, A_INNER, ... | strides of the two batch dimensions |
| INNER | size of the inner batch dimension |
| A_FIRST, B_FIRST, C_FIRST | where the matrices begin, from the addresses that the kernel gets |
| BLOCK | rows that a task works off with one panel of B |
| PANELS | panels of B: N / COLUMNS, rounded up |
| PLACE | where panels are: to be packed (PACK), in B as it lies (IN_PLACE), packed before (PACKED) |
| ADD | 1: C holds what the product is added to |
| A_AHEAD | 1: rows of A are asked for before they are needed |
| TILE, PACKER, STARTER, ASKER | addresses of the kernels that do the parts; STARTER, ASKER 0 for none |
| FREE... | a packer's or starter's own |
"""

from __future__ import annotations

M, N, K, A_ROW, A_DEPTH, B_DEPTH, B_COLUMN, C_ROW, D_ROW, D_COLUMN = range(10)
A_OUTER, A_INNER, B_OUTER, B_INNER, C_OUTER, C_INNER, D_OUTER, D_INNER, INNER = range(10, 19)
BLOCK, PANELS, PLACE, ADD, A_AHEAD, TILE, PACKER, STARTER, ASKER, A_FIRST, B_FIRST, C_FIRST, FREE = range(19, 32)
WORDS = 48

PACK, IN_PLACE, PACKED = range(3)

NAMES = {name: value for name, value in globals().items() if name.isupper()}
