"""Every example runs to its end, shows what it can do and leaves its picture."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import rushlight

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parent.parent
QUICK = {
    "digits": (["--epochs", "1", "--workers", "0"], "test accuracy"),
    "gpt": (["--steps", "3", "--context", "16", "--sample", "5"], "held-out loss"),
    "vae": (["--epochs", "1", "--width", "16"], "nats per image"),
    "forecast": (["--epochs", "1", "--width", "4", "--split", "1964"], "simple rule"),
}
NEEDS = {"digits": "sklearn", "vae": "sklearn", "forecast": "statsmodels", "gpt": "tqdm"}


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example in this process; gives its exit status, and what it wrote to either stream."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        try:
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("name", QUICK)
def test_trains_and_draws(name, run, tmp_path):
    pytest.importorskip(NEEDS[name])
    options, says = QUICK[name]
    status, out, _ = run(name, *options, "--no-compile", "--out", tmp_path)
    assert status == 0 and says in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", QUICK)
def test_compiles_its_whole_training_step(name, run, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS[name])
    compile, compiled, reports = rushlight.compile, [], []

    def strict(**options):
        compiled.append(compile(fullgraph=True, **options))

        def explained(function):
            step = compiled[-1](function)

            def first(*args, **kwargs):
                if not reports:
                    reports.append(rushlight.compiler.explain(function)(*args, **kwargs))
                return step(*args, **kwargs)

            return first

        return explained

    monkeypatch.setattr(rushlight, "compile", strict)
    status, out, _ = run(name, *QUICK[name][0], "--out", tmp_path)
    assert status == 0 and QUICK[name][1] in out and len(compiled) == 1
    assert (reports[0].graph_count, reports[0].graph_break_count) == (1, 0), reports[0].break_reasons


@pytest.mark.parametrize("name", QUICK)
def test_explains_its_options_and_refuses_nonsense(name, run, tmp_path):
    pytest.importorskip(NEEDS[name])
    status, out, _ = run(name, "--help")
    assert status == 0 and all(word in out for word in ("--lr", "--seed", "--no-compile"))
    status, _, complaint = run(name, "--lr", -1, "--out", tmp_path / "never")
    assert status == 2 and "--lr" in complaint and "positive" in complaint
    assert not (tmp_path / "never").exists()
