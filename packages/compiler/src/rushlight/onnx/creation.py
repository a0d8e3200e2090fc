"""Constants, ranges and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.op import REGISTRY
from rushlight.onnx.builder import Builder, Ref, is_open, same_size
from rushlight.onnx.proto import DATA_TYPE
from rushlight.onnx.table import Refused, refuse, row


def filled(o: Builder, shape: tuple, value: Any, kind: dtypes.dtype) -> Ref:
    """A tensor of one number."""
    scalar = o.cast(value, kind) if isinstance(value, Ref) else o.number(value, kind)
    return o.Expand(scalar, o.sizes(shape)) if len(shape) else scalar


@row("full")
def full(o: Builder, value: Any, *, shape: tuple, dtype: Any, device: Any) -> Ref:
    return filled(o, shape, value, dtype)


@row("fill")
def fill(o: Builder, x: Ref, value: Any) -> Ref:
    return filled(o, x.shape, value, x.dtype)


@row("empty")
def empty(o: Builder, *, shape: tuple, strides: Any, dtype: Any, device: Any) -> Ref:
    return filled(o, shape, 0, dtype)  # any content will do


@row("arange")
def arange(o: Builder, start: Any, step: Any, *, length: Any, dtype: Any, device: Any) -> Ref:
    if not is_open(length) and not isinstance(start, Ref) and not isinstance(step, Ref):
        return _made_now(o, "arange", (start, step), (length, dtype, device))
    count = o.cast(o.squeeze(o.sizes((length,)), 0), dtypes.int64)
    places = o.Range(o.number(0, dtypes.int64), count, o.number(1, dtypes.int64))
    made = o.cast(places, dtype if dtype.is_floating_point else dtypes.int64)
    made = made if same_size(step, 1) else o.Mul(made, step)
    return o.cast(made if same_size(start, 0) else o.Add(made, start), dtype)


@row("linspace")
def linspace(o: Builder, start: Any, end: Any, *, steps: int, dtype: Any, device: Any) -> Ref:
    return _made_now(o, "linspace", (start, end), (steps, dtype, device))


@row("eye")
def eye(o: Builder, *, n: int, m: int, dtype: Any, device: Any) -> Ref:
    return _made_now(o, "eye", (), (n, m, dtype, device))


@row("tril_indices")
def tril_indices(o: Builder, *, row: int, col: int, offset: int, upper: bool, dtype: Any, device: Any) -> Ref:
    return _made_now(o, "tril_indices", (), (row, col, offset, upper, dtype, device))


def _made_now(o: Builder, name: str, operands: tuple, params: tuple) -> Ref:
    """The result of a call in which nothing depends on the inputs of the model."""
    if any(isinstance(x, Ref) or is_open(x) for x in (*operands, *params)):
        raise Refused("its size or its ends depend on the inputs")
    found = REGISTRY[name].execute(operands, params)
    return o.constant(found._array, found.dtype)


@row("rand")
def rand(o: Builder, seed: Any, offset: Any, *, shape: tuple, dtype: Any, device: Any) -> Ref:
    return random(o, "Uniform", shape, dtype, low=0.0, high=1.0)


@row("rand_between")
def rand_between(o: Builder, seed: Any, offset: Any, *, a: float, b: float, shape: tuple, dtype: Any, device: Any
                 ) -> Ref:
    return random(o, "Uniform", shape, dtype, low=float(a), high=float(b))


@row("randn")
def randn(o: Builder, seed: Any, offset: Any, *, shape: tuple, dtype: Any, device: Any) -> Ref:
    return random(o, "Normal", shape, dtype, mean=0.0, scale=1.0)


@row("randn_scaled")
def randn_scaled(o: Builder, seed: Any, offset: Any, *, a: float, b: float, shape: tuple, dtype: Any, device: Any
                 ) -> Ref:
    return random(o, "Normal", shape, dtype, mean=float(a), scale=float(b))


@row("randint")
def randint(o: Builder, seed: Any, offset: Any, *, low: int, high: int, shape: tuple, dtype: Any, device: Any) -> Ref:
    drawn = random(o, "Uniform", shape, dtypes.float64, low=float(low), high=float(high))
    return o.cast(o.Min(o.Floor(drawn), float(high - 1)), dtype)


@row("normal")
def normal(o: Builder, mean: Any, std: Any, seed: Any, offset: Any) -> Ref:
    like = mean if isinstance(mean, Ref) else std
    shape = np.broadcast_shapes(*[x.shape for x in (mean, std) if isinstance(x, Ref)])
    drawn = random(o, "Normal", shape, like.dtype, mean=0.0, scale=1.0)
    return o.Add(o.Mul(drawn, std), mean)


@row("bernoulli")
def bernoulli(o: Builder, probability: Ref, seed: Any, offset: Any) -> Ref:
    return o.Bernoulli(probability)


def random(o: Builder, kind: str, shape: tuple, dtype: dtypes.dtype, **attributes: float) -> Ref:
    """Random numbers; ONNX has no generator that could be told to go on where rushlight's stands."""
    wide = dtypes.float32 if dtype in dtypes.HALF else dtype
    if shape and not any(map(is_open, shape)):
        call = getattr(o, f"Random{kind}")
        return o.cast(call(shape=list(shape), dtype=DATA_TYPE[wide], result=wide, **attributes), dtype)
    like = filled(o, shape, 0, wide)
    return o.cast(getattr(o, f"Random{kind}Like")(like, dtype=DATA_TYPE[wide], result=wide, **attributes), dtype)


refuse("ONNX has no random permutation", "randperm")
refuse("ONNX has no draw from a Poisson or binomial distribution", "poisson", "binomial")
