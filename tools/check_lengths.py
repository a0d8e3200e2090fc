#!/usr/bin/env python3
"""Hold the length of files: what does not fit a few screens is split by family."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folder -> the most lines a Python file in it may have. Tables of cases may be longer than code.
LIMITS = {"packages": 400, "tools": 400, "examples": 200, "benchmarks": 600}
TESTS = 600
# An example that a newcomer reads first has to fit into one sitting.
FILES = {"examples/digits.py": 120}


def check(root: Path = ROOT) -> list[str]:
    """The files over their limit."""
    violations = []
    for folder, limit in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            place = path.relative_to(root)
            name = place.as_posix()
            if any(part.startswith(".") for part in place.parts):
                continue
            most = FILES.get(name, TESTS if "tests" in place.parts else limit)
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > most:
                violations.append(f"{name}: {lines} lines; the limit is {most}, so split it by family")
    return violations


def main() -> int:
    violations = check()
    for violation in violations:
        print(violation)
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
