#!/usr/bin/env python3
"""Test each package alone: a fresh environment with its wheel and its declared needs, and nothing else of rushlight."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


def needs(package: str) -> list[str]:
    """The package and the siblings that it or its tests need, direct or not."""
    found: list[str] = []
    waiting = [package]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            settings = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
            project = tomllib.loads(settings)["project"]
            tests = project["optional-dependencies"]["test"] if name == package else []
            for requirement in [*project.get("dependencies", []), *tests]:
                if match := re.match(r"rushlight-(\w+)", requirement):
                    waiting.append(match[1])
    return found


def run(*command: str | Path, **options) -> int:
    """Run a command and return its exit status."""
    return subprocess.run([str(word) for word in command], **options).returncode


def must(*command: str | Path, **options) -> None:
    """Run a command that the check cannot do without."""
    if run(*command, **options):
        sys.exit(f"isolated: failed: {' '.join(map(str, command))}")


def build_wheels(folder: Path) -> dict[str, Path]:
    """A wheel of every package."""
    must(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder,
         *(ROOT / "packages" / package for package in PACKAGES))
    return {package: next(folder.glob(f"rushlight_{package}-*.whl")) for package in PACKAGES}


def own_modules(python: Path, package: str) -> list[str]:
    """The installed folders and files that belong to the package, for its doctests."""
    script = ("import importlib.metadata as m\n"
              f"found = m.distribution('rushlight-{package}')\n"
              "for top in sorted({file.parts[:2] for file in found.files if file.parts[0] == 'rushlight'}):\n"
              "    print(found.locate_file('/'.join(top)))")
    listed = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    return [path for path in listed if not path.endswith(("py.typed", "__pycache__"))]


def check(package: str, wheels: dict[str, Path], folder: Path) -> int:
    """Install one package into a new environment and run its tests and doctests there."""
    environment = folder / package
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    siblings = [wheels[name] for name in needs(package) if name != package]
    must(python, "-m", "pip", "install", "--quiet", f"{wheels[package]}[test]", *siblings)
    # Started elsewhere and without the current folder on the path, so that only what is installed can be imported.
    # Examples that use a package that is not here are left out.
    return run(
        python,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "sibling_doctests",
        "-c",
        ROOT / "pyproject.toml",
        "-p",
        "no:cacheprovider",
        ROOT / "packages" / package / "tests",
        *own_modules(python, package),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PACKAGES)} (default: all)")
    # The last package first: a test run beside this one begins with the first, and finds what the other compiled.
    chosen = parser.parse_args().packages or PACKAGES[::-1]
    if unknown := sorted(set(chosen) - set(PACKAGES)):
        parser.error(f"no such package: {', '.join(unknown)}")
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = build_wheels(folder / "wheels")
        for package in chosen:
            started = time.monotonic()
            print(f"== {package}, with {', '.join(needs(package)[1:]) or 'no sibling'}", flush=True)
            if check(package, wheels, folder):
                failed.append(package)
            print(f"== {package}: {time.monotonic() - started:.0f} s", flush=True)
    if failed:
        print(f"isolated: failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
