"""Pictures of captured graphs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import rushlight
from rushlight.compiler import explain
from rushlight.compiler.graph.text import parse


def gelu_rows(x, w):
    h = (x @ w).relu() * 2
    return h.sum(1), h.t() @ h


@pytest.fixture(scope="module")
def picture():
    return explain(gelu_rows)(rushlight.ones(4, 3), rushlight.ones(3, 5)).draw()


def test_a_box_for_each_kernel_with_shapes_and_bytes(picture):
    words = [lines for lines, _ in picture.boxes]
    assert words[:2] == [["input 0", "float32[4, 3]"], ["input 1", "float32[3, 5]"]]
    assert ["matmul float32[4, 5]", "reads 108 B, writes 80 B"] in words
    fused = next(lines for lines in words if "one kernel, 2 operations" in lines)
    assert fused[-1] == "reads 80 B, writes 80 B" and "mul float32[4, 5]" in fused
    assert [lines for lines in words if lines[0].endswith("{1, 5}")] == [["permute float32[5, 4]{1, 5}"]]
    assert len(words[-1]) == 2 and words[-1][0] == "output 0 float32[4]"


def test_arrows_lead_forward_from_what_is_read(picture):
    assert all(target > number for number, targets in enumerate(picture.below) for target in targets)
    reached = {target for targets in picture.below for target in targets}
    assert reached == set(range(len(picture.boxes))) - {0, 1}, "only the inputs read nothing"


def test_forms(picture):
    ElementTree.fromstring(picture.svg)
    assert picture.dot.startswith("digraph") and picture._repr_svg_() == picture.svg
    body, _, summary = picture.text.rpartition("\n")
    assert parse(body).outputs and summary == picture.summary
    assert picture.reads == sum(int(line.split()[1]) for lines, _ in picture.boxes for line in lines if "reads" in line)


def test_reductions_that_repeat_what_they_fold_are_drawn_once_for_others():
    picture = explain(lambda x: ((x + 1).sum(), x + 1))(rushlight.ones(8)).draw()
    assert all(target > number for number, targets in enumerate(picture.below) for target in targets)


def test_a_call_that_was_not_captured_has_no_picture():
    report = explain(lambda x: x.nonzero())(rushlight.ones(1))
    with pytest.raises(RuntimeError, match="no graph 0, 0 were captured: .*nonzero"):
        report.draw()
