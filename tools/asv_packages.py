#!/usr/bin/env python3
"""Build, install and remove the packages of one commit for asv, which knows only repositories of one package."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path


def pip(*arguments: str | Path) -> None:
    """Run pip of the interpreter that asv chose."""
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], check=True)


def wheel_folder(cache: str) -> Path:
    """Where the wheels lie: a folder of their own, since asv takes several wheels side by side for an error."""
    return Path(cache) / "wheels"


def build(checkout: str, cache: str) -> None:
    """Build a wheel of every package that the commit has."""
    folders = [path.parent for path in sorted(Path(checkout).glob("packages/*/pyproject.toml"))]
    if not folders:
        sys.exit(f"asv_packages: no packages/*/pyproject.toml in {checkout}: the commit is older than the monorepo")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheel_folder(cache), *folders)


def install(cache: str) -> None:
    """Install the wheels; what they need is in the environment already, pinned by asv's matrix."""
    pip("install", "--no-deps", "--no-index", "--force-reinstall", *sorted(wheel_folder(cache).glob("*.whl")))


def uninstall() -> None:
    """Remove every package, also those that only another commit has."""
    names = {found.metadata["Name"] for found in importlib.metadata.distributions()}
    ours = sorted(name for name in names if name.startswith("rushlight-"))
    if ours:
        pip("uninstall", "--yes", *ours)


COMMANDS = {"build": build, "install": install, "uninstall": uninstall}

if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    COMMANDS[command](*rest)
