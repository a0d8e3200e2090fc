"""Attention with scores and masks given by functions: `rushlight.nn.attention.flex_attention`.

The functions get indices of batch, head, query and key, which broadcast against each other, and are called once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F

__all__ = [
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that leaves everything."""
    return rushlight.ones((), dtype=rushlight.bool, device=batch.device)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask that leaves what all of several masks leave."""

    def both(*places: Tensor) -> Tensor:
        result = noop_mask(*places)
        for mask in mask_mods:
            result = result & mask(*places)
        return result

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask that leaves what one of several masks leaves."""

    def either(*places: Tensor) -> Tensor:
        result = ~noop_mask(*places)
        for mask in mask_mods:
            result = result | mask(*places)
        return result

    return either


def _places(*sizes: int, device: Any = None) -> tuple[Tensor, ...]:
    """The indices of batch, head, query and key, each along a dimension of its own."""
    shapes = [[-1 if i == j else 1 for j in range(4)] for i in range(4)]
    return tuple(rushlight.arange(n, device=device).view(shape) for n, shape in zip(sizes, shapes))


def create_mask(
    mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None  # noqa: N803
) -> Tensor:
    """The mask of a function as a bool tensor `(b, h, q, k)`; None counts as 1."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_places(*sizes, device=device)).expand(sizes)


class BlockMask:
    """A mask that `create_block_mask` made, for `flex_attention`. `shape` is `(b, h, q, k)`."""

    def __init__(self, mask_mod: MaskMod, shape: tuple[int, ...], block: tuple[int, int], device: Any) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE = mask_mod, shape, block
        self._mask = create_mask(mask_mod, *shape, device=device)

    def to_dense(self) -> Tensor:
        """Which blocks hold something that is left, as int32 `(b, h, q / block, k / block)`."""
        q, k = self.BLOCK_SIZE
        mask = F.pad(self._mask, (0, -self.shape[3] % k, 0, -self.shape[2] % q), value=False)
        blocks = mask.unflatten(3, (-1, k)).unflatten(2, (-1, q))
        return blocks.any(5).any(3).to(rushlight.int32)

    def sparsity(self) -> float:
        """The percentage of blocks that are empty."""
        return 100 * (1 - self.to_dense().double().mean().item())

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,  # noqa: N803  PyTorch's names
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,  # noqa: N803
    **options: Any,
) -> BlockMask:
    """The mask of a function for `flex_attention`; None for batch or head means that all share it."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block, device)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
) -> Any:
    """`softmax(score_mod(query @ key.T * scale, b, h, q, k)) @ value`, without what the mask takes away.

    Shapes: query `(b, h, l, e)`, key `(b, hk, s, e)`, value `(b, hk, s, ev)` -> `(b, h, l, ev)`; `enable_gqa` lets `h`
    be a multiple of `hk`. A query that sees nothing gives zeros. `return_lse` adds the logarithms of the sums of
    exponentials `(b, h, l)`. Raises ValueError for sizes that do not fit.

    Example:
        >>> import rushlight
        >>> from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
        >>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
        >>> x = rushlight.eye(3).view(1, 1, 3, 3)
        >>> flex_attention(x, x, x, block_mask=causal, scale=0.0)[0, 0, 1]
        tensor([0.5000, 0.5000, 0.0000])
    """
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        dims = f"{query.dim()}-D, {key.dim()}-D and {value.dim()}-D"
        raise ValueError(f"flex_attention: query, key and value must be 4-D, got {dims}")
    groups, rest = divmod(query.shape[1], key.shape[1])
    if rest or (groups != 1 and not enable_gqa):
        raise ValueError(
            f"flex_attention: query has {query.shape[1]} heads and key {key.shape[1]}; enable_gqa=True allows multiples"
        )
    sizes = (*query.shape[:3], key.shape[2])
    if block_mask is not None and (
        block_mask.shape[2:] != sizes[2:] or any(m not in (1, n) for m, n in zip(block_mask.shape, sizes))
    ):
        raise ValueError(f"flex_attention: block_mask was made for {block_mask.shape}, the scores are {sizes}")
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (query @ key.mT) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_places(*sizes, device=query.device)).expand(sizes)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask._mask, -math.inf)
    lse = scores.logsumexp(-1)
    # Where nothing is left the sum is 0: its logarithm stands aside, and so do the NaN that it would make.
    weights = (scores - lse.masked_fill(lse == -math.inf, 0.0).unsqueeze(-1)).exp()
    output = weights.to(value.dtype) @ value
    return (output, lse) if return_lse else output
