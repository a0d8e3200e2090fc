#!/usr/bin/env python3
"""Run the array API standard's test suite on rushlight, with the exceptions that docs/array-api.md lists.

The suite is no part of this repository: `git clone --recurse-submodules https://github.com/data-apis/array-api-tests`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "array-api.md"


def exceptions(page: str) -> list[str]:
    """The test ids that a page lists, one a line."""
    return [line for line in page.splitlines() if line.startswith("array_api_tests/")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path, help="a checkout of array-api-tests, with its submodule")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="for pytest: -k linalg --max-examples 20 ...")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(exceptions(PAGE.read_text(encoding="utf-8"))) + "\n")
        listed.flush()
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--disable-deadline", "--xfails-file", listed.name]
        if not any(word.startswith("array_api_tests") for word in options.rest):
            command.append("array_api_tests")
        environment = {**os.environ, "ARRAY_API_TESTS_MODULE": "rushlight.array_api"}
        return subprocess.run([*command, *options.rest], cwd=options.suite, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
