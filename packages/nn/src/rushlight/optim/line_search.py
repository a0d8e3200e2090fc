"""A search along a direction for a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rushlight import Tensor

ENOUGH, FLAT = 1e-4, 0.9  # the conditions: how much the loss must fall, how much the slope must flatten
MOST = 25  # tries


@dataclass
class Point:
    """What is known at step size `t`: loss, gradient, and slope along the direction."""

    t: float
    loss: float
    grad: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes is least, within bounds; their middle when it has no
    minimum."""
    if b.t < a.t:
        a, b = b, a
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend * bend - a.slope * b.slope
    if square < 0:
        return (low + high) / 2
    root = math.sqrt(square)
    t = b.t - (b.t - a.t) * ((b.slope + root - bend) / (b.slope - a.slope + 2 * root))
    return min(max(t, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    start: Point,
    direction: Tensor,
    t: float,
    tolerance_change: float = 1e-9,
) -> tuple[Point, int]:
    """A point that satisfies the strong Wolfe conditions, or the best found, and the number of evaluations.

    `evaluate(t)` gives loss and gradient at `t` steps along the direction. Source: Nocedal and Wright, Numerical
    Optimization, algorithms 3.5 and 3.6.
    """

    def at(t: float) -> Point:
        loss, grad = evaluate(t)
        return Point(t, loss, grad, float(grad.dot(direction)))

    def too_high(point: Point) -> bool:
        return point.loss > start.loss + ENOUGH * point.t * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -FLAT * start.slope

    previous, point, tries = start, at(t), 0
    while tries < MOST:
        if too_high(point) or (tries > 1 and point.loss >= previous.loss) or point.slope >= 0 and not flat(point):
            break
        if flat(point):
            return point, tries + 1
        step = point.t - previous.t
        farther = cubic_minimum(previous, point, point.t + 0.01 * step, point.t * 10)
        previous, point, tries = point, at(farther), tries + 1
    else:
        previous = start
    return _zoom(at, too_high, flat, previous, point, tries, float(direction.abs().max()), tolerance_change)


def _zoom(
    at: Callable[[float], Point],
    too_high: Callable[[Point], bool],
    flat: Callable[[Point], bool],
    a: Point,
    b: Point,
    tries: int,
    length: float,
    tolerance_change: float,
) -> tuple[Point, int]:
    """Narrow a bracket between two points down to one that satisfies the conditions."""
    low, high = (a, b) if a.loss <= b.loss else (b, a)
    slow = False
    while tries < MOST and abs(high.t - low.t) * length >= tolerance_change:
        left, right = min(low.t, high.t), max(low.t, high.t)
        t = cubic_minimum(low, high, left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            # Close to an end, twice in a row or beyond: the cubic does not help, move inside.
            if slow or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        point = at(t)
        tries += 1
        if too_high(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if flat(point):
            return point, tries + 1
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
    return low, tries + 1
