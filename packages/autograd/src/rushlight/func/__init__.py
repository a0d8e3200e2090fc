"""Functions of functions: `grad`, `vjp`, `jvp`, Jacobians, `vmap`, in any nesting.

Example:
    >>> import rushlight
    >>> square = lambda x: x * x
    >>> rushlight.func.vmap(rushlight.func.grad(square))(rushlight.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 6.])
"""

from rushlight.autograd.batching import fallbacks
from rushlight.func.batching import vmap
from rushlight.func.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from rushlight.func.modules import functional_call, stack_module_state

__all__ = [
    "fallbacks",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
