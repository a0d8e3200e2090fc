"""Gradients of arithmetic."""

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.autograd.rules.rounding import zeros
from rushlight.ops import prims
from rushlight.ops.arithmetic import floor_divide, trunc_divide

vjp(prims.add, input=lambda g: g, other=lambda g: g)
vjp(prims.sub, input=lambda g: g, other=lambda g: -g)
vjp(prims.mul, input=lambda g, other: g * conj(other), other=lambda g, input: g * conj(input))
vjp(prims.true_divide, input=lambda g, other: g / conj(other), other=lambda g, other, ans: -g * conj(ans / other))
vjp(prims.neg, input=lambda g: -g)

vjp(prims.floor_divide, input=zeros, other=zeros)
vjp(prims.trunc_divide, input=zeros, other=zeros)
vjp(prims.remainder, input=lambda g: g, other=lambda g, input, other: -g * floor_divide(input, other))
vjp(prims.fmod, input=lambda g: g, other=lambda g, input, other: -g * trunc_divide(input, other))

vjp(
    prims.add_scaled,
    input=lambda g: g,
    other=lambda g, alpha: g * conj(alpha),
    alpha=lambda g, other: g * conj(other),
)
vjp(
    prims.addcmul,
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(tensor2 * value),
    tensor2=lambda g, tensor1, value: g * conj(tensor1 * value),
    value=lambda g, tensor1, tensor2: g * conj(tensor1 * tensor2),
)
vjp(
    prims.addcdiv,
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: -g * conj(value * tensor1 / (tensor2 * tensor2)),
    value=lambda g, tensor1, tensor2: g * conj(tensor1 / tensor2),
)
vjp(
    prims.lerp,
    input=lambda g, weight: g * conj(1 - weight),
    end=lambda g, weight: g * conj(weight),
    weight=lambda g, input, end: g * conj(end - input),
)
