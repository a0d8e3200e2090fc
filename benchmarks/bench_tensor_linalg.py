"""Matrix products by our own kernels, and elimination on top of them."""

from .common import library, numbers


class Product:
    """One size that numpy multiplies, those where overheads and caches decide, and one that is packed before."""

    params = ([64, 128, 256, 512, 1024], ["nn", "nt", "tn"])
    param_names = ("size", "layout")

    def setup(self, size, layout):
        torch = library("matmul")
        a, b = (torch.from_numpy(numbers(size, size, seed=seed)) for seed in (0, 1))
        self.a, self.b = a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b
        self.time_call(size, layout)

    def time_call(self, size, layout):
        self.a @ self.b


class Others:
    """Batches, a bias added while tiles are made, vectors, elimination."""

    params = ["bmm_64x128", "linear_512x768x3072", "mv_2048", "vm_2048", "solve_512", "lu_factor_512", "cholesky_512"]
    param_names = ("what",)

    def setup(self, what):
        torch = library("bmm", "mv", "linalg")
        make = lambda *shape: torch.from_numpy(numbers(*shape))  # noqa: E731
        if what == "bmm_64x128":
            x = make(64, 128, 128)
            self.call = lambda: torch.bmm(x, x)
        elif what.startswith("linear"):
            x, weight, bias = make(512, 768), make(3072, 768), make(3072)
            self.call = lambda: torch.addmm(bias, x, weight.T)
        elif what in ("mv_2048", "vm_2048"):
            a, x = make(2048, 2048), make(2048)
            self.call = (lambda: a @ x) if what[0] == "m" else (lambda: x @ a)
        else:
            a, b = make(512, 512), make(512, 64)
            positive = a @ a.T + 512 * torch.eye(512)
            run = getattr(torch.linalg, what.rpartition("_")[0])
            self.call = (lambda: run(positive, b)) if what.startswith("solve") else (lambda: run(positive))
        self.call()

    def time_call(self, what):
        self.call()
