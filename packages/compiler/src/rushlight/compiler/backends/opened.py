"""Backends that compile for many sizes at once."""

from __future__ import annotations

from rushlight.compiler.aot.opened import open_family
from rushlight.compiler.codegen.program import OpenProgram, compile_program
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.families import Family
from rushlight.compiler.graph.ir import Graph


def family(backend: str, graph: Graph, facts: Facts, options: dict) -> Family | None:
    """The programs of a graph with symbols: `at(sizes)` is what runs for values of the atoms of the facts, by number.

    None where the backend makes a program for each set of sizes.
    """
    if backend != "inductor" or options.get("as_tape"):
        return None
    return open_family(graph, facts, compile_program, lambda graph, facts: OpenProgram(graph))
