#!/usr/bin/env python3
"""Compile random programs for a while, and report those that do something else than eager calls, made as small as
possible.

    hatch run fuzz-compiler --seconds 600
    hatch run fuzz-compiler --only tensors,graphs --seed 5000
    hatch run fuzz-compiler --only programs --seed 118 --count 1

The kinds: `programs` (Python and its state), `state` (whatever a program can reach changes), `tensors` (views, in-place
writes, aliases), `steps` (of training), `sizes` (shapes that change), `graphs` (ops, fused and laid out in all ways).
packages/compiler/tests/capture/test_fuzz.py does the first seeds.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import signal
import sys
import time
import traceback
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import rushlight as torch
from rushlight.compiler import _config

TESTS = Path(__file__).resolve().parents[1] / "packages" / "compiler" / "tests" / "capture"
KINDS = ("programs", "state", "tensors", "steps", "sizes", "graphs")


class Endless(BaseException):
    """A program that takes too long, eagerly too; no Exception, which programs catch."""


@contextlib.contextmanager
def within(seconds: float) -> Any:
    """Raise Endless in a block that takes longer, where there are such alarms."""
    def ring(*_: Any) -> None:
        raise Endless

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load(name: str) -> Any:
    """A file beside the tests of the capture."""
    spec = spec_from_file_location(f"rushlight_fuzz_{name}", TESTS / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Fuzzer:
    """One kind of programs, and what became of them."""

    def __init__(self, kind: str, observed: Any, backend: str) -> None:
        self.kind, self.observed = kind, observed
        self.backend = "inductor" if kind == "graphs" and backend in ("eager", "lazy") else backend
        self.module = load({"programs": "fuzz"}.get(kind, f"fuzz_{kind}"))
        self.states: list[Any] = []
        self.captured, self.given_up = 0, collections.Counter()

    def compile(self, fn: Any) -> Any:
        """The compiled function, whose state is looked at later."""
        # Programs of operations that were put off add in another order, too, if they are not interpreted.
        options = {"programs": "eager"} if self.backend == "lazy" else None
        made = torch.compile(fn, backend=self.backend, options=options)
        self.states.append(made._rushlight_state)
        return made

    def run(self, seed: int) -> str | None:
        """What is wrong with a program, None if nothing is."""
        if self.kind == "graphs":
            graph, inputs = self.module.scenario(seed)
            reason = self.module.differs(graph, inputs, self.backend)
            return reason and f"{reason}\n{graph}\n{[x.tolist() for x in inputs]}"
        self.states.clear()
        if self.kind == "state":
            return self.module.wrong(seed, self.compile, self.observed)
        if self.kind == "steps":
            source = self.module.program(seed)
            same = self.module.near(*[self.module.run(source, how, seed) for how in (lambda f: f, self.compile)])
            return None if same else source
        body, steps = self.module.scenario(seed)
        how = [self.compile, self.observed]
        if self.kind == "sizes" and self.backend not in ("eager", "aot_eager"):
            how.append(self.module.near)  # others add in another order
        wrong = self.module.differs(body, steps, *how)
        self.captured += sum(state.captures for state in self.states)
        self.given_up.update(text.split(" (")[0].split(":")[0] for state in self.states for text in state.aborts)
        if not wrong:
            return None
        body, steps = shrink(body, steps, lambda *smaller: self.module.differs(*smaller, *how))
        return "\n    ".join(["differs:", *body, *[f"# {step}" for step in steps]])


def shrink(body: list, steps: list, differs: Any) -> tuple[list, list]:
    """A smaller program, with fewer steps, that still differs."""
    changed = True
    while changed:
        changed = False
        for items in (body, steps):
            for i in reversed(range(len(items))):
                fewer = items[:i] + items[i + 1:]
                attempt = (fewer, steps) if items is body else (body, fewer)
                try:
                    still = all(attempt) and differs(*attempt)
                except Exception:  # without this line it is no program any more
                    continue
                if still:
                    (body, steps), changed = attempt, True
                    break
    return body, steps


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, help="how many seeds, whatever the time")
    parser.add_argument("--only", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one program, its smaller forms included")
    parser.add_argument("--backend", default="eager", help="of programs and tensors, such as lazy; graphs need another")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    conftest = load("conftest")
    _config.raise_internal_errors = True
    _config.LAZY_CALLS_BEFORE = 0
    fuzzers = [Fuzzer(kind, conftest.observed, options.backend) for kind in options.only.split(",")]
    end, wrong, done, endless = time.monotonic() + options.seconds, 0, 0, 0
    for seed in itertools.count(options.seed):
        if seed - options.seed == options.count or options.count is None and time.monotonic() > end:
            break
        for fuzzer in fuzzers:
            try:
                with within(options.limit):
                    found = fuzzer.run(seed)
            except Exception:
                found = traceback.format_exc(limit=-4)
            except Endless:
                found, endless = None, endless + 1
            torch.set_grad_enabled(True)  # which programs may have changed
            torch.set_default_dtype(torch.float32)
            if found is not None:
                wrong += 1
                print(f"{fuzzer.kind}, seed {seed}: {found}", flush=True)
            done += 1
    print(f"{done} programs, {wrong} wrong" + f", {endless} took over {options.limit:g} s" * bool(endless))
    for fuzzer in fuzzers:
        if fuzzer.captured:
            reasons = "".join(f"\n{times:8} {text}" for text, times in fuzzer.given_up.most_common(25))
            print(f"{fuzzer.kind}: {fuzzer.captured} captures; given up:{reasons}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
