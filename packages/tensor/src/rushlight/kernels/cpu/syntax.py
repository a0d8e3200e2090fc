"""What the translations to LLVM ask of a function's syntax before they write it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence


def settled_names(arguments: ast.arguments, statements: Sequence[ast.stmt]) -> set[str]:
    """The names that are written once, and read only where that has happened: in the same list of statements, later, or
    in lists inside of it.

    Such a name is its value. Any other is a place on the stack, and most of what LLVM has to read before it gives up
    the places again.
    """
    reader = _Reader([argument.arg for argument in arguments.args])
    reader.read(statements)
    return {name for name, count in reader.writes.items() if count == 1} - reader.unsettled


class _Reader(ast.NodeVisitor):
    """Goes through a function in the order in which it runs."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.writes = Counter(arguments)
        self.lists = [0]  # the lists of statements that are being read, by number
        self.count = 1
        self.home = dict.fromkeys(self.writes, 0)  # the list in which a name is written
        self.unsettled: set[str] = set()

    def read(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def read_list(self, *nodes: ast.AST) -> None:
        self.lists.append(self.count)
        self.count += 1
        self.read(nodes)
        self.lists.pop()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.writes[node.id] += 1
            self.home[node.id] = self.lists[-1]
        elif self.home.get(node.id) not in self.lists:
            self.unsettled.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.read([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.unsettled.add(ast.unparse(node.target))
        self.read([node.value, node.target])

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.read_list(node.target, *node.body)

    def visit_If(self, node: ast.If | ast.While) -> None:
        self.visit(node.test)
        self.read_list(*node.body)
        self.read_list(*node.orelse)

    visit_While = visit_If
