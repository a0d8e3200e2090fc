"""Passes: functions from a graph to an equivalent, better one."""

from rushlight.compiler.graph.passes.apart import stated, taken_apart
from rushlight.compiler.graph.passes.cse import eliminate_common
from rushlight.compiler.graph.passes.dce import eliminate_dead, live_values
from rushlight.compiler.graph.passes.decompose import decompose

__all__ = ["decompose", "eliminate_common", "eliminate_dead", "live_values", "stated", "taken_apart"]
