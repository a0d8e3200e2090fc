#!/usr/bin/env python3
"""Hold the import table: which package may import which, and that imports stand at the top of a module.

An import inside a function is for what is slow to load or may be absent; any other says why in a comment beside it.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Package -> (siblings it may import, distributions it may import).
# tensor needs safetensors only for its files, and only when it meets one.
# nn needs tensorboardX only for utils.tensorboard, an extra.
# compiler needs onnx, onnxruntime and openvino only to check and run exported models, extras.
# numpy comes with tensor, so whoever needs tensor has it too; the same holds for numba and llvmlite in the compiler.
TABLE: dict[str, tuple[set[str], set[str]]] = {
    "tensor": (set(), {"numpy", "numba", "llvmlite", "ml_dtypes", "scipy", "safetensors"}),
    "autograd": ({"tensor"}, {"numpy"}),
    "nn": ({"tensor", "autograd"}, {"numpy", "tensorboardX"}),
    "data": ({"tensor"}, {"numpy"}),
    "compiler": ({"tensor", "autograd"}, {"numpy", "numba", "llvmlite", "onnx", "onnxruntime", "openvino"}),
}

# Slow to import or not always there, so a function may import them when it first needs them.
LAZY = (
    "numba", "llvmlite", "scipy", "matplotlib", "safetensors", "onnx", "onnxruntime", "openvino", "rushlight.kernels",
)  # fmt: skip
OPTIONAL = {"compiler": ("rushlight.autograd",)}


@dataclass(frozen=True)
class Violation:
    """A line that breaks the table."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def module_name(path: Path, source: Path) -> str:
    """The dotted name of a file below a package's src folder."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def owners(root: Path) -> dict[str, str]:
    """Every module of the monorepo with the package that owns it."""
    found = {}
    for package in TABLE:
        source = root / "packages" / package / "src"
        for path in sorted(source.rglob("*.py")):
            found[module_name(path, source)] = package
    return found


def imported(node: ast.AST, module: str, is_package: bool) -> list[str]:
    """The dotted names a node imports or, as `rushlight.<name>`, reaches through the root package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            anchor = module.split(".")
            anchor = anchor[: len(anchor) - node.level + is_package]
            base = ".".join([*anchor, base] if base else anchor)
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rushlight":
        return [f"rushlight.{node.attr}"]
    return []


def owner_of(name: str, modules: dict[str, str]) -> str | None:
    """The package that owns the module in which a dotted name lies."""
    while name:
        if name in modules:
            return modules[name]
        name = name.rpartition(".")[0]
    return None


def nested_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node


def check_names(package: str, names: list[str], modules: dict[str, str]) -> Iterator[str]:
    """What is wrong with a package using these names."""
    siblings, distributions = TABLE[package]
    for name in names:
        top = name.partition(".")[0]
        if top == "rushlight":
            owner = owner_of(name, modules)
            if owner is not None and owner != package and owner not in siblings:
                yield f"{package} must not use {name}, which belongs to {owner}"
        elif top not in sys.stdlib_module_names and top not in distributions:
            yield f"{package} must not import {top}: it is not among its declared needs"


def explained(lines: list[str], number: int) -> bool:
    """Has the import on this line a comment, or the block of imports that it belongs to one above it?"""
    if "#" in lines[number - 1]:
        return True
    while lines[number - 2].lstrip().startswith(("import ", "from ")):
        number -= 1
    return lines[number - 2].lstrip().startswith("#")


def check_file(path: Path, module: str, package: str, modules: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The lines of one file that break a rule."""
    source = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    is_package = path.name == "__init__.py"
    for node in ast.walk(tree):
        for message in check_names(package, imported(node, module, is_package), modules):
            yield node.lineno, message
    for node in {id(node): node for node in nested_imports(tree)}.values():
        for name in imported(node, module, is_package):
            lazy = (*LAZY, *OPTIONAL.get(package, ()))
            if not explained(lines, node.lineno) and not any(name == one or name.startswith(one + ".") for one in lazy):
                yield node.lineno, f"import {name} belongs at the top of the module, or say in a comment why not"


def check(root: Path = ROOT) -> list[Violation]:
    """All violations in the packages below a root."""
    modules = owners(root)
    violations = []
    for package in TABLE:
        source = root / "packages" / package / "src"
        for path in sorted(source.rglob("*.py")):
            for line, message in check_file(path, module_name(path, source), package, modules):
                violations.append(Violation(path.relative_to(root), line, message))
    return violations


def main() -> int:
    violations = check()
    for violation in violations:
        print(violation)
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
