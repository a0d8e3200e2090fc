"""Functions of functions: `grad`, `vjp`, `jvp`, Jacobians, `vmap`, in any nesting.

Example:
    >>> import rushlight
    >>> square = lambda x: x * x
    >>> rushlight.func.vmap(rushlight.func.grad(square))(rushlight.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 6.])
"""

from rushlight.autograd.batching import fallbacks
from rushlight.func.batching import debug_unwrap, vmap
from rushlight.func.forward import jvp
from rushlight.func.jacobians import hessian, jacfwd, jacrev
from rushlight.func.linear import linearize
from rushlight.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from rushlight.func.rearranging import rearrange
from rushlight.func.reverse import grad, grad_and_value, vjp

__all__ = [
    "debug_unwrap",
    "fallbacks",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
