"""Pictures of directed graphs without cycles: SVG, Graphviz DOT, HTML. Each node lies below all that lead to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from html import escape
from os.path import splitext

_CHARACTER, _LINE, _MARGIN, _GAP, _BETWEEN = 6.2, 14, 8, 24, 36  # pixels; the font is monospaced, 10 points

Box = tuple[list[str], str]  # lines of text, and a colour


class Picture(ABC):
    """A graph as text and as a picture, which notebooks show. A subclass says what there is to see."""

    @property
    @abstractmethod
    def boxes(self) -> list[Box]:
        """What stands in each node, in an order in which arrows lead forward only."""

    @property
    @abstractmethod
    def below(self) -> list[list[int]]:
        """For each box the numbers of those that its arrows go to."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """One line about the whole."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The graph in words."""

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language: `dot -Tpng` makes an image of it."""
        lines = ["digraph {", "  rankdir=TB;", '  node [shape=box, style=filled, fontname="monospace", fontsize=10];']
        for number, (words, colour) in enumerate(self.boxes):
            label = "\\n".join([line.replace("\\", "\\\\").replace('"', '\\"') for line in words])
            lines.append(f'  n{number} [label="{label}", fillcolor="{colour}"];')
        lines += [f"  n{number} -> n{below};" for number, targets in enumerate(self.below) for below in targets]
        return "\n".join([*lines, "}"]) + "\n"

    @property
    def svg(self) -> str:
        """The graph as an SVG picture, made without Graphviz."""
        return svg(self.boxes, self.below, self.summary)

    def save(self, path: str) -> None:
        """Write a file: `.dot` or `.gv`, `.svg`, `.html` or `.txt`; ValueError for another ending."""
        forms: dict[str, Callable[[], str]] = {
            ".dot": lambda: self.dot,
            ".gv": lambda: self.dot,
            ".svg": lambda: self.svg,
            ".html": lambda: f"<!doctype html><meta charset='utf-8'><title>graph</title>{self._repr_html_()}",
            ".txt": lambda: self.text + "\n",
        }
        ending = splitext(path)[1]
        if ending not in forms:
            raise ValueError(
                f"draw: cannot write {ending!r} files, only {', '.join(forms)}; for images save a .dot file and run "
                "Graphviz on it"
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(forms[ending]())

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div style='overflow:auto; max-height:800px'>{self.svg}</div><p>{escape(self.summary)}</p>"

    def __str__(self) -> str:
        return self.text


def bytes_text(nbytes: int) -> str:
    """A size in the largest unit of which it has one."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if nbytes >= 1024**power:
            return f"{nbytes / 1024**power:.1f} {unit}"
    return f"{nbytes} B"


def svg(boxes: list[Box], below: list[list[int]], caption: str) -> str:
    """The picture of boxes, each with lines of text and a colour; `below` lists where the arrows of each go.

    The boxes come in an order in which arrows lead forward only.
    """
    layers = _layers(below)
    sizes = [(max(map(len, lines)) * _CHARACTER + 2 * _MARGIN, len(lines) * _LINE + _MARGIN) for lines, _ in boxes]
    width = max([sum([sizes[n][0] + _GAP for n in layer]) for layer in layers])
    places: dict[int, tuple[float, float]] = {}  # the middle of the upper side
    y = float(_GAP)
    for layer in layers:
        x = (width - sum([sizes[n][0] + _GAP for n in layer])) / 2 + _GAP / 2
        for n in layer:
            places[n] = x + sizes[n][0] / 2, y
            x += sizes[n][0] + _GAP
        y += max([sizes[n][1] for n in layer]) + _BETWEEN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{y:.0f}" '
        f'viewBox="0 0 {width:.0f} {y:.0f}" font-family="monospace" font-size="10">',
        f"<title>{escape(caption)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z"/></marker></defs>',
    ]
    for n, targets in enumerate(below):
        (x1, top), height = places[n], sizes[n][1]
        for target in targets:
            x2, y2 = places[target]
            parts.append(
                f'<line x1="{x1:.1f}" y1="{top + height:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#555" '
                'marker-end="url(#arrow)"/>'
            )
    for n, (lines, colour) in enumerate(boxes):
        (x, top), (w, h) = places[n], sizes[n]
        parts.append(
            f'<rect x="{x - w / 2:.1f}" y="{top:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4" fill="{colour}" '
            'stroke="#777"/>'
        )
        parts += [
            f'<text x="{x:.1f}" y="{top + _LINE * (i + 1) - 2:.1f}" text-anchor="middle">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ]
    return "\n".join([*parts, "</svg>"])


def _layers(below: list[list[int]]) -> list[list[int]]:
    """Each node in the layer after the last of those that lead to it; within a layer, near the middle of those."""
    depth = [0] * len(below)
    above: list[list[int]] = [[] for _ in below]
    for n, targets in enumerate(below):
        for target in targets:
            depth[target] = max(depth[target], depth[n] + 1)
            above[target].append(n)
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for n, d in enumerate(depth):
        layers[d].append(n)
    position: dict[int, float] = {}
    for layer in layers:
        layer.sort(key=lambda n: sum([position[up] for up in above[n]]) / max(len(above[n]), 1))
        position.update({n: (i + 0.5) / len(layer) for i, n in enumerate(layer)})
    return layers
