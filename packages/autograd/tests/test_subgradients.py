"""The table of subgradients, docs/subgradients.md, row by row; against PyTorch where it is installed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import rushlight
from rushlight.core.namespace import exports_of

PAGE = Path(__file__).parents[3] / "docs" / "subgradients.md"
if not PAGE.exists():
    pytest.skip("the page lies beside the packages, in the repository", allow_module_level=True)

ROW = re.compile(r"\| `(?P<function>.+?)` \| `(?P<at>.+?)` \| `(?P<gradient>.+?)` \| ?(?P<torch>.*?) ?\|$")
ROWS = [match for line in PAGE.read_text(encoding="utf-8").splitlines() if (match := ROW.match(line))]
NUMBERS = {"inf": math.inf, "nan": math.nan}


class Names(dict):
    """The names in a row: `x`, `F`, and the functions of a library."""

    def __init__(self, library, functional) -> None:
        super().__init__(NUMBERS, F=functional, __builtins__={})
        self.library = library

    def __missing__(self, name):
        return getattr(self.library, name)


class Functional:
    """`nn.functional` as far as it is there without rushlight-nn."""

    def __getattr__(self, name):
        return exports_of("nn.functional")(name)


def gradient(library, functional, row) -> list[float] | None:
    """The gradient of a row's function, None when there is none."""
    names = Names(library, functional)
    x = names["x"] = library.tensor(eval(row["at"], NUMBERS), dtype=library.float64, requires_grad=True)
    y = eval(row["function"], names)
    found = library.autograd.grad(y.sum(), x, allow_unused=True)[0]
    return None if found is None else found.tolist()


def numbers(text: str):
    return pytest.approx(eval(text, dict(NUMBERS)), rel=1e-6, nan_ok=True)


def test_page_has_all_its_rows():
    tables = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(ROWS) == len(tables) > 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['function']} at {row['at']}")
def test_gradient_is_that_of_the_page(row):
    assert gradient(rushlight, Functional(), row) == numbers(row["gradient"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['function']} at {row['at']}")
@pytest.mark.filterwarnings("ignore")
def test_pytorch_gives_what_the_page_says(row):
    torch = pytest.importorskip("torch")
    if row["torch"] == "raises":
        with pytest.raises(RuntimeError):
            gradient(torch, torch.nn.functional, row)
    elif row["torch"] == "none":
        assert gradient(torch, torch.nn.functional, row) is None
    else:
        assert gradient(torch, torch.nn.functional, row) == numbers(row["torch"].strip("`") or row["gradient"])
