"""Pictures of the graph."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import rushlight
from rushlight.autograd import Function
from rushlight.autograd.graph import draw
from rushlight.utils.checkpoint import checkpoint

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def branches():
    a = rushlight.ones(2, 3, requires_grad=True)
    b = rushlight.ones(3, requires_grad=True)
    h = (a * b).exp()
    return draw((h + h.sin()).sum(), {"a": a, "b": b})


def test_text_is_a_tree_with_forms_and_bytes(branches):
    assert branches.text.splitlines() == [
        "SumBackward0 float32[] #0",
        "AddBackward0 float32[2, 3] #1",
        "|   ExpBackward0 float32[2, 3] #3  keeps 24 B (result: float32[2, 3])",
        "|   MulBackward0 float32[2, 3] #4  keeps 36 B (other: float32[3]; input: float32[2, 3])",
        "|   |   a float32[2, 3] #6",
        "|   b float32[3] #5",
        "SinBackward0 float32[2, 3] #2  keeps 24 B (input: float32[2, 3])",
        "ExpBackward0 #3, see above",
        "7 nodes keep 60 B in 3 tensors (36 B of it is memory of leaves)",
    ]
    assert str(branches) == branches.text
    assert (branches.saved_bytes, branches.leaf_bytes) == (60, 36)


def test_dot_has_all_nodes_and_edges(branches):
    assert branches.dot.startswith("digraph {") and branches.dot.endswith("}\n")
    assert branches.dot.count(" -> ") == 7 and branches.dot.count("label=") == 7
    assert 'label="ExpBackward0 float32[2, 3]\\nresult: float32[2, 3], 24 B"' in branches.dot


def test_svg_places_nodes_below_those_that_lead_to_them(branches):
    root = ElementTree.fromstring(branches.svg)
    boxes = [{key: float(r.get(key)) for key in ("x", "y", "width", "height")} for r in root.iter(f"{SVG}rect")]
    width, height = float(root.get("width")), float(root.get("height"))
    assert len(boxes) == 7 and len(list(root.iter(f"{SVG}line"))) == 7
    for n, node in enumerate(branches.nodes):
        assert 0 <= boxes[n]["x"] <= width - boxes[n]["width"] and boxes[n]["y"] + boxes[n]["height"] <= height
        assert all(boxes[below]["y"] > boxes[n]["y"] + boxes[n]["height"] for below in node.below)
    assert not any(
        a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"] and a["y"] == b["y"]
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    )
    assert branches._repr_svg_() == branches.svg and branches.svg in branches._repr_html_()


@pytest.mark.parametrize(
    "ending, part", [("dot", "digraph"), ("gv", "->"), ("svg", "<svg"), ("html", "<!doctype"), ("txt", "#0")]
)
def test_files(branches, tmp_path, ending, part):
    path = tmp_path / f"graph.{ending}"
    branches.save(str(path))
    assert part in path.read_text()
    with pytest.raises(ValueError, match="cannot write '.png'"):
        branches.save(str(tmp_path / "graph.png"))


def test_all_kinds_of_nodes():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = rushlight.ones(4, requires_grad=True)
    y = Twice.apply(x)
    z = y * 1
    z[:2].exp_()
    values, _ = z.sort()
    w = checkpoint(lambda v: v.sin(), values, use_reentrant=False)
    text = draw([w.sum(), values.sum()]).text
    for part in ("TwiceBackward float32[4]", "saved 0: float32[4]", "CopySlices float32[4]", "input: kept by a hook"):
        assert part in text
    assert "AccumulateGrad float32[4]" in text


def test_long_chains_and_freed_graphs():
    x = rushlight.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y.exp()
    drawing = draw(y)
    assert drawing.text.count("\n") == 3001 and "|" not in drawing.text
    assert drawing.saved_bytes == 3000 * 4 and drawing.svg
    z = x.exp()
    z.backward()
    assert draw(z).saved_bytes == 0


def test_needs_a_graph():
    with pytest.raises(RuntimeError, match="does not require grad"):
        draw(rushlight.ones(1))
