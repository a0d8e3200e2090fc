"""Random numbers change in steps with their parameters, or are held fixed: the gradient is zero, as PyTorch has it."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import lead
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims

vjp(prims.bernoulli, input=lambda g, input_meta: zeros_for(input_meta))
vjp(prims.poisson, input=lambda g, input_meta: zeros_for(input_meta))
vjp(
    prims.normal,
    mean=lambda g, mean_meta: zeros_for(mean_meta),
    std=lambda g, std_meta: zeros_for(std_meta),
)
vjp(
    prims.binomial,
    count=lambda g, count_meta: zeros_for(count_meta),
    prob=lambda g, prob_meta: zeros_for(prob_meta),
)

for _op in (prims.bernoulli, prims.poisson, prims.normal, prims.binomial):
    batch(_op, lead)
