"""Random numbers do not depend on anything that could be differentiated by."""

from rushlight.autograd.rules.registry import batch, nondifferentiable
from rushlight.ops import prims
from rushlight.ops.join import stack

nondifferentiable(prims.rand, prims.randn, prims.randint, prims.randperm, prims.rand_between, prims.randn_scaled)


def _each_permutation(seed, offset, n, dtype, device, samples):
    counters = prims.randperm.counters(n, dtype, device)
    return stack([prims.randperm.apply((seed, offset + i * counters), (n, dtype, device)) for i in range(samples)])


for _op in (prims.rand, prims.randn):
    batch(
        _op,
        lambda op, seed, offset, shape, dtype, device, samples: op.apply(
            (seed, offset), ((samples, *shape), dtype, device)
        ),
    )
batch(
    prims.randint,
    lambda op, seed, offset, low, high, shape, dtype, device, samples: op.apply(
        (seed, offset), (low, high, (samples, *shape), dtype, device)
    ),
)
for _op in (prims.rand_between, prims.randn_scaled):
    batch(
        _op,
        lambda op, seed, offset, a, b, shape, dtype, device, samples: op.apply(
            (seed, offset), (a, b, (samples, *shape), dtype, device)
        ),
    )
batch(prims.randperm, _each_permutation)
