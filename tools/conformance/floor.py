#!/usr/bin/env python3
"""Hold the conformance floor: how many checks pass at each level, a number that only ever rises.

    floor.py                run the slice that CI runs and compare it with floor.json
    floor.py --full         the same with every case
    floor.py --raise        ... and write higher counts into floor.json
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLOOR = HERE / "floor.json"
# Checks that passed once and do not on purpose: the second derivative of 0 ** 0 is 0 here, NaN in PyTorch.
GIVEN_UP = {"slice": {"ops/double-backward": 1}}
SLICES = 2  # CI runs every second case, chosen by name, so that a new case elsewhere changes nothing
OPTIONS = {"slice": ("--samples", "2", "--limit", "20", "--jobs", "2"), "full": ("--limit", "20", "--jobs", "2")}


def conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the harness with its output captured."""
    return subprocess.run([sys.executable, str(HERE / "conformance.py"), *arguments], stdout=subprocess.PIPE, text=True)


def slice_pattern() -> str:
    """A pattern that matches the labels of CI's slice."""
    listed = conformance("--list").stdout.splitlines()
    labels = [line.split()[0] for line in listed if not line.startswith("left out:")]
    chosen = [label for label in labels if zlib.crc32(label.encode()) % SLICES == 0]
    return f"^({'|'.join(map(re.escape, chosen))})$"


def measure(kind: str) -> dict[str, int]:
    """Checks passed per level; prints the harness's own table."""
    selection = ("--only", slice_pattern()) if kind == "slice" else ()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        run = conformance(*OPTIONS[kind], *selection, "--json", str(result))
        # The harness's own closing line counts what is not there yet as failed; here only the floor decides.
        print("\n".join(run.stdout.splitlines()[:-1]))
        if not result.exists():
            sys.exit(f"conformance floor: the harness stopped with status {run.returncode} and no result")
        table = json.loads(result.read_text(encoding="utf-8"))["table"]
    return {f"{row['section']}/{row['level']}": row["passed"] for row in table}


def below(floor: dict[str, int], passed: dict[str, int]) -> list[str]:
    """The levels at which fewer checks pass than did before."""
    return [f"{level}: {passed.get(level, 0)} passed, the floor is {least}"
            for level, least in floor.items() if passed.get(level, 0) < least]


def highest(floor: dict[str, int], passed: dict[str, int]) -> dict[str, int]:
    """The floor after this run; it never sinks."""
    return {level: max(floor.get(level, 0), passed.get(level, 0)) for level in sorted({*floor, *passed})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every case instead of CI's slice")
    parser.add_argument("--raise", dest="rise", action="store_true", help="write higher counts into floor.json")
    arguments = parser.parse_args()
    kind = "full" if arguments.full else "slice"
    floors = json.loads(FLOOR.read_text(encoding="utf-8"))
    passed = measure(kind)
    if arguments.rise:
        floors[kind] = highest(floors[kind], passed)
        FLOOR.write_text(json.dumps(floors, indent=2) + "\n", encoding="utf-8")
    sunk = below(floors[kind], passed)
    print("\n".join([f"conformance floor: {kind}: {sum(passed.values())} checks pass", *sunk]))
    return int(bool(sunk))


if __name__ == "__main__":
    sys.exit(main())
