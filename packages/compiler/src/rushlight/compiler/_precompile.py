"""`precompile`: a program as a Python file, and running such files."""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.generator import default_generator
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy
from rushlight.serialization.atomic import replacing

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram


class Precompiled(str):
    """The source of a program, and what it was made with: `weights` by name, `examples`, the example inputs."""

    weights: dict[str, Tensor]
    examples: list[Tensor]


class Loaded:
    """A file that `precompile.save` wrote, as a function: `run(*inputs)`, tensors in the order of the example's.

    It computes with `weights`, tensors by name, which are those of the model when it was saved; other ones of the same
    shapes can be put in their place.
    """

    def __init__(self, module: ModuleType, weights: dict[str, Tensor]) -> None:
        self.module, self.weights = module, weights

    def __call__(self, *inputs: Tensor) -> Any:
        for i, x in enumerate(inputs):
            if not isinstance(x, Tensor):
                raise TypeError(f"{self.module.__name__}: input {i}: expected a tensor, got {type(x).__name__}; other "
                                "arguments of the model were fixed when it was precompiled, leave them out")
        arrays = {name: x.detach().numpy() for name, x in self.weights.items()}
        counters = getattr(self.module, "COUNTERS", None)  # of the random generator, where the program draws
        drawn = () if counters is None else default_generator.take(counters)
        found = self.module.call([x.detach().numpy() for x in inputs], arrays, *drawn)
        results = [from_numpy(x) if isinstance(x, np.ndarray) else x for x in found]
        return results[0] if len(results) == 1 else tuple(results)


class Precompile:
    """`precompile(fn, *example_inputs)`: the source of a Python file that computes `fn`, with numpy and numba alone.

    `fn` is a module or function of tensors. Its elementwise operations become fused numba loops, the rest calls of
    numpy. Weights stay outside: the file's `call(inputs, weights)` takes them as a dict of arrays. Shapes and dtypes
    are those of the example. `precompile.save` writes the file and what it needs to check itself, `precompile.load`
    makes a function of it.

    Raises NotImplementedError for operations that have no form in numpy yet, and what `rushlight.export.export` raises.

    Example:
        >>> import rushlight
        >>> source = rushlight.compiler.precompile(lambda x: (x * 2).relu() + 1, rushlight.ones(3))
        >>> print(source[source.index("@kernel"):source.index("def match")].strip())
        @kernel
        def loop_mul_relu_add_1(out, in0):
            \"""mul, relu, add\"""
            for i in range(out.size):
                out[i] = maximum(in0[i] * f32(2.0), f32(0.0)) + f32(1.0)
    """

    def __call__(self, fn: Callable, *example_inputs: Any) -> Precompiled:
        from rushlight.compiler.standalone import file  # loads the kernels, as the next one does
        from rushlight.export import export  # on top of this package

        program: ExportedProgram = export(fn, example_inputs)
        name = getattr(fn, "__name__", type(fn).__name__)
        title = f"{name if name.isidentifier() else 'A function'}, precompiled by rushlight."
        made = Precompiled(file.write_file(program, title, "THIS_FILE.py"))
        made.weights, made.examples = file.state_tensors(program), file.argument_tensors(program)
        return made

    def save(self, program: Precompiled, path: str | os.PathLike, *, warm: bool = True) -> None:
        """Write the source to `path`, which ends in .py, and weights and example beside it, as .npz.

        With `warm` the file is run once, which checks it and leaves numba's compiled kernels beside it. Raises
        ValueError for another ending, TypeError for what `precompile` did not make.
        """
        path = Path(path)
        if not isinstance(program, Precompiled):
            raise TypeError(f"precompile.save: expected what precompile returned, got {type(program).__name__}")
        if path.suffix != ".py":
            raise ValueError(f"precompile.save: the path must end in .py, got {os.fspath(path)!r}")
        arrays = {f"input {i}": x.detach().numpy() for i, x in enumerate(program.examples)}
        arrays |= {f"weight {name}": x.detach().numpy() for name, x in program.weights.items()}
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        with replacing(path.with_suffix(".npz")) as file:
            file.write(packed.getvalue())
        with replacing(path) as file:
            name = path.name.encode("unicode_escape").decode().replace('"', '\\"')  # it stands in a docstring
            file.write(str(program).replace("THIS_FILE.py", name).encode())
        if warm:
            module = _module(path)
            module.call([a.copy() for a in (arrays[f"input {i}"] for i in range(len(program.examples)))],
                        {name: arrays[f"weight {name}"].copy() for name in program.weights})

    def load(self, path: str | os.PathLike, weights: Mapping[str, Tensor] | None = None) -> Loaded:
        """The function in a file that `save` wrote, with the weights saved beside it, or with others.

        This runs the file, as importing does: load files of people you trust. Raises FileNotFoundError for a path that
        is not there.
        """
        module = _module(Path(path))
        if weights is None:
            with np.load(Path(path).with_suffix(".npz")) as file:
                weights = {name: from_numpy(file[f"weight {name}"]) for name, _, _ in module.WEIGHTS}
        return Loaded(module, dict(weights))


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"precompile.load: there is no file {os.fspath(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


precompile = Precompile()
