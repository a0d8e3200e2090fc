#!/usr/bin/env python3
"""Measure rushlight beside PyTorch and write docs/performance.md.

    hatch run performance                    # four runs of some minutes each, then the page
    hatch run performance --stored FOLDER    # the page alone, from the runs that FOLDER holds

Four runs of benchmarks/peers: with two threads and with one, with glibc's malloc as it is and told to keep freed
memory. `--rt`, where the system allows it, times at real-time priority: other programs then disturb little.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "benchmarks" / "peers"
PAGE = ROOT / "docs" / "performance.md"
GROUPS = ("overhead", "elementwise", "reductions", "linalg", "indexing")
# Heading of the column, the options of the run, the name of its file.
RUNS = (
    ("2 threads", ("--threads", "2"), "threads2.json"),
    ("1 thread", ("--threads", "1"), "threads1.json"),
    ("2, tuned", ("--threads", "2", "--tuned-malloc"), "threads2-tuned.json"),
    ("1, tuned", ("--threads", "1", "--tuned-malloc"), "threads1-tuned.json"),
)
INTRODUCTION = """\
# Speed of single operations

Time of rushlight over time of PyTorch on the same work, each pair measured in turns in one run and its results
compared: below 1, rushlight is faster. Operations run eagerly; `_fb` is forward and backward.

    hatch run performance

makes this page with `benchmarks/peers` ([how it measures](../benchmarks/peers/README.md)). "tuned" tells glibc's malloc
to keep freed memory, which spares PyTorch the page faults of large results; rushlight's own allocator keeps it in both
modes. A single line can be off by a quarter on a shared machine, the means by a few per cent.
"""


def measure(folder: Path, more: list[str]) -> None:
    """Make the four runs; each is stored as it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    only = f"^({'|'.join(GROUPS)})/"
    for _, options, name in RUNS:
        subprocess.run(
            [sys.executable, str(PEERS / "peerbench.py"), "--lib", "rushlight", "--only", only, *options,
             "--json", str(folder / name), *more],
            check=True,
        )  # fmt: skip


def cell(row: dict[str, Any]) -> str:
    """The ratio of one workload, or what kept it from having one."""
    if not row:
        return ""
    return f"{row['ratio']:.2f}" if row["status"] == "ok" and "ratio" in row else row["status"]


def page(runs: dict[str, dict[str, Any]], amount: Any) -> str:
    """The text of the page for the runs by heading."""
    first = next(iter(runs.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    machine = f"Python {first['python']}, {first['cpus']} cores, {first['machine'].get('fma', 0) / 1e9:.0f} Gflop/s"
    means = [[group, *(f"{mean(run, group):.2f}" for run in runs.values())] for group in GROUPS]
    ratios = []
    for name, rows in first["results"].items():
        base = rows["torch"]
        cells = (cell(run["results"].get(name, {}).get("rushlight", {})) for run in runs.values())
        ratios.append([name, amount(base["median"]) if "median" in base else base["status"], *cells])
    return "\n".join(
        [
            INTRODUCTION,
            f"Seen with {versions}, {machine} of float32.\n",
            *table(["geometric mean", *runs], means),
            "",
            *table(["workload", "torch, 2 threads", *runs], ratios),
            "",
        ]
    )


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]


def mean(run: dict[str, Any], group: str) -> float:
    """The geometric mean of a group's ratios."""
    rows = [rows["rushlight"] for name, rows in run["results"].items() if name.startswith(f"{group}/")]
    logs = [math.log(row["ratio"]) for row in rows if row["status"] == "ok" and "ratio" in row]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=Path, help="a folder with the four runs, instead of measuring")
    parser.add_argument("--folder", type=Path, default=ROOT / ".performance", help="where new runs are stored")
    options, more = parser.parse_known_args()
    if options.stored is None:
        measure(options.folder, more)
    folder = options.stored or options.folder
    sys.path.insert(0, str(PEERS))
    from report import amount

    runs = {heading: json.loads((folder / name).read_text()) for heading, _, name in RUNS}
    PAGE.write_text(page(runs, amount))


if __name__ == "__main__":
    main()
