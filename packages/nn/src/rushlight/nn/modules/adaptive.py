"""A softmax over very many classes that spends its work on the frequent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean negative of them."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes, sorted by falling frequency, fall into a head and into tail clusters whose projections get narrower
    (Grave et al. 2017, "Efficient softmax approximation for GPUs").

    `cutoffs` are the first classes of the clusters; cluster `i` has width `in_features // div_value ** (i + 1)`.
    Shapes: `(n, in_features)` and targets `(n)` -> `output (n)` and a scalar `loss`; both without `n` for one sample.
    Raises ValueError for cutoffs that are not rising numbers below `n_classes`.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10])
        >>> layer(rushlight.zeros(3, 16), rushlight.tensor([0, 5, 19])).output.shape
        rushlight.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        whole = all(int(c) == c for c in ends)
        if not ends or not whole or ends != sorted(set(ends)) or ends[0] <= 0 or ends[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                f"where each value is between 1 and n_classes-1, got {ends} for {n_classes} classes"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*ends, n_classes]
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, False, **where), Linear(width, size, False, **where))
            )

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        if target_.ndim > 1:
            raise RuntimeError(f"0D or 1D target tensor expected, got {target_.ndim}D; multi-target is not supported")
        if input_.ndim != target_.ndim + 1:
            raise RuntimeError(f"{target_.ndim + 1}D input tensor expected for this target, got {input_.ndim}D")
        single = target_.ndim == 0
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if x.shape[0] != target.shape[0]:
            raise RuntimeError(
                f"input and target should have the same batch size, got {x.shape[0]} and {target.shape[0]}"
            )
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found"
            )
        in_head = target.clone()
        output = x.new_zeros(target.shape)
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            in_head[rows] = self.shortlist_size + i
            inside = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            found = inside.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            output = output.index_add(0, rows, found)
        output = output + F.log_softmax(self.head(x), 1).gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return ASMoutput(output.squeeze(0) if single else output, loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: `(n, in_features) -> (n, n_classes)`."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return rushlight.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row: `(n, in_features) -> (n)`; most rows need the head only."""
        best = self.head(input).argmax(1)
        unsure = (best >= self.shortlist_size).nonzero().squeeze(1)
        if unsure.numel():
            best[unsure] = self.log_prob(input.index_select(0, unsure)).argmax(1)
        return best
