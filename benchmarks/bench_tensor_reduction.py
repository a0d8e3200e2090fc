"""Reductions, scans, softmax and the choice of elements, along both dimensions of a large matrix; attention."""

from .common import library, numbers

CALLS = {
    "max": lambda x, dim: x.max(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "norm": lambda x, dim: x.norm(2, dim),
    "var": lambda x, dim: x.var(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "topk": lambda x, dim: x.topk(10, dim),
}


class Along:
    params = (list(CALLS), ["float32", "float64", "bfloat16"], [0, 1])
    param_names = ("function", "dtype", "dim")

    def setup(self, function, dtype, dim):
        torch = library(dtype)
        self.x = torch.from_numpy(numbers(1000, 1000)).to(getattr(torch, dtype))
        CALLS[function](self.x, dim)

    def time_along(self, function, dtype, dim):
        CALLS[function](self.x, dim)


class CrossEntropy:
    params = ([(64, 1000), (50_000, 10)],)
    param_names = ("shape",)

    def setup(self, shape):
        torch = library("nn.functional.cross_entropy", "Tensor.backward")
        self.loss = torch.nn.functional.cross_entropy
        self.x = torch.from_numpy(numbers(*shape)).requires_grad_()
        self.target = torch.arange(shape[0]) % shape[1]
        self.time_forward(shape)
        self.time_gradient(shape)

    def time_forward(self, shape):
        self.loss(self.x, self.target)

    def time_gradient(self, shape):
        self.x.grad = None
        self.loss(self.x, self.target).backward()


class Attention:
    params = [True, False]
    param_names = ("causal",)

    def setup(self, causal):
        torch = library("nn.functional.scaled_dot_product_attention", "Tensor.backward")
        self.attend = torch.nn.functional.scaled_dot_product_attention
        self.qkv = [torch.from_numpy(numbers(4, 12, 256, 64, seed=k)).requires_grad_() for k in range(3)]
        self.time_forward(causal)
        self.time_gradient(causal)

    def time_forward(self, causal):
        self.attend(*self.qkv, is_causal=causal)

    def time_gradient(self, causal):
        self.attend(*self.qkv, is_causal=causal).sum().backward()
