#!/usr/bin/env python3
"""Measure rushlight beside PyTorch and write docs/performance.md.

    hatch run performance                    # five runs of some minutes each, then the page
    hatch run performance --stored FOLDER    # the page alone, from the runs that FOLDER holds

Runs of benchmarks/peers. Four of single operations: with two threads and with one, with glibc's malloc as it is and
told to keep freed memory. One of models, optimizers and loaders, eager and compiled. `--rt`, where the system allows
it, times at real-time priority: other programs then disturb little.
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
MODEL_GROUPS = ("models", "optim", "data")
MODELS = "models.json"
LIBRARIES = {"eager": "rushlight", "compiled": "rushlight-compile"}
# Heading of the column, the options of the run, the name of its file.
RUNS = (
    ("2 threads", ("--threads", "2"), "threads2.json"),
    ("1 thread", ("--threads", "1"), "threads1.json"),
    ("2, tuned", ("--threads", "2", "--tuned-malloc"), "threads2-tuned.json"),
    ("1, tuned", ("--threads", "1", "--tuned-malloc"), "threads1-tuned.json"),
)
INTRODUCTION = """\
# Speed

Time of rushlight over time of PyTorch on the same work, each pair measured in turns in one run and its results
compared: below 1, rushlight is faster. `_fb` is forward and backward.

    hatch run performance

makes this page with `benchmarks/peers` ([how it measures](../benchmarks/peers/README.md)). "tuned" tells glibc's malloc
to keep freed memory, which spares PyTorch the page faults of large results; rushlight's own allocator keeps it in both
modes. A single line can be off by a quarter on a shared machine, the means by a few per cent.
"""
OPERATIONS = """
## Single operations, eager
"""
TRAINING = """
## Models, optimizers and loaders

Two threads, malloc as it is, PyTorch eager. `_train` is a training step whose model alone is compiled, `_step` the
same step compiled as one function.
"""


def measure(folder: Path, more: list[str]) -> None:
    """Make the runs; each is stored as it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    for _, options, name in RUNS:
        peers(folder / name, GROUPS, ["rushlight"], [*options, *more])
    peers(folder / MODELS, MODEL_GROUPS, list(LIBRARIES.values()), ["--threads", "2", *more])


def peers(path: Path, groups: tuple[str, ...], libraries: list[str], more: list[str]) -> None:
    """One run of the given groups."""
    chosen = [word for library in libraries for word in ("--lib", library)]
    only = f"^({'|'.join(groups)})/"
    command = [sys.executable, str(PEERS / "peerbench.py"), *chosen, "--only", only, "--json", str(path), *more]
    subprocess.run(command, check=True)


def cell(row: dict[str, Any]) -> str:
    """The ratio of one workload, or what kept it from having one."""
    if not row:
        return ""
    return f"{row['ratio']:.2f}" if row["status"] == "ok" and "ratio" in row else row["status"]


def page(runs: dict[str, dict[str, Any]], models: dict[str, Any], amount: Any) -> str:
    """The text of the page for the runs of operations by heading, and that of models."""
    first = next(iter(runs.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    machine = f"Python {first['python']}, {first['cpus']} cores, {first['machine'].get('fma', 0) / 1e9:.0f} Gflop/s"
    means = [[group, *(mean(run, group, "rushlight") for run in runs.values())] for group in GROUPS]
    ratios = [
        [name, base(rows, amount), *(cell(run["results"].get(name, {}).get("rushlight", {})) for run in runs.values())]
        for name, rows in first["results"].items()
    ]
    libraries = LIBRARIES.values()
    model_means = [[group, *(mean(models, group, library) for library in libraries)] for group in MODEL_GROUPS]
    model_ratios = [
        [name, base(rows, amount), *(cell(rows.get(library, {})) for library in libraries)]
        for name, rows in models["results"].items()
    ]
    return "\n".join(
        [
            INTRODUCTION,
            f"Seen with {versions}, {machine} of float32.",
            OPERATIONS,
            *table(["geometric mean", *runs], means),
            "",
            *table(["workload", "torch, 2 threads", *runs], ratios),
            TRAINING,
            *table(["geometric mean", *LIBRARIES], model_means),
            "",
            *table(["workload", "torch", *LIBRARIES], model_ratios),
            "",
        ]
    )


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]


def base(rows: dict[str, Any], amount: Any) -> str:
    """The time of PyTorch for a workload, or what kept it from having one."""
    row = rows["torch"]
    return str(amount(row["median"]) if "median" in row else row["status"])


def mean(run: dict[str, Any], group: str, library: str) -> str:
    """The geometric mean of a group's ratios; nothing where there are none."""
    rows = [rows.get(library, {}) for name, rows in run["results"].items() if name.startswith(f"{group}/")]
    logs = [math.log(row["ratio"]) for row in rows if row.get("status") == "ok" and "ratio" in row]
    return f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else ""


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=Path, help="a folder with the runs, instead of measuring")
    parser.add_argument("--folder", type=Path, default=ROOT / ".performance", help="where new runs are stored")
    options, more = parser.parse_known_args()
    if options.stored is None:
        measure(options.folder, more)
    folder = options.stored or options.folder
    sys.path.insert(0, str(PEERS))
    from report import amount

    runs = {heading: json.loads((folder / name).read_text()) for heading, _, name in RUNS}
    PAGE.write_text(page(runs, json.loads((folder / MODELS).read_text()), amount))


if __name__ == "__main__":
    main()
