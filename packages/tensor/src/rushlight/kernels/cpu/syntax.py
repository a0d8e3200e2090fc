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
    for statement in statements:
        reader.read(statement)
    return {name for name, count in reader.writes.items() if count == 1} - reader.unsettled


class _Reader:
    """Goes through a function in the order in which it runs; ast.NodeVisitor would take twice as long."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.writes = Counter(arguments)
        self.lists = [0]  # the lists of statements that are being read, by number
        self.count = 1
        self.home = dict.fromkeys(self.writes, 0)  # the list in which a name is written
        self.unsettled: set[str] = set()

    def read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign():
                self.look(statement.value)
                self.look(*statement.targets)
            case ast.If() | ast.While():
                self.look(statement.test)
                self.read_list(statement.body)
                self.read_list(statement.orelse)
            case ast.For():
                self.look(statement.iter)
                self.read_list(statement.body, statement.target)
            case ast.AugAssign():
                self.unsettled.add(ast.unparse(statement.target))
                self.look(statement)
            case _:
                self.look(statement)

    def read_list(self, statements: Sequence[ast.stmt], *targets: ast.expr) -> None:
        self.lists.append(self.count)
        self.count += 1
        self.look(*targets)
        for statement in statements:
            self.read(statement)
        self.lists.pop()

    def look(self, *nodes: ast.AST) -> None:
        """Note the names in expressions, in any order: no expression writes a name and reads it."""
        waiting = [*nodes]
        while waiting:
            node = waiting.pop()
            if type(node) is ast.Name:
                self.note(node)
            elif type(node) is not ast.Constant:
                for part in [getattr(node, field) for field in node._fields]:
                    if type(part) is list:
                        waiting += [x for x in part if isinstance(x, ast.AST)]
                    elif isinstance(part, ast.expr):
                        waiting.append(part)

    def note(self, name: ast.Name) -> None:
        if isinstance(name.ctx, ast.Store):
            self.writes[name.id] += 1
            self.home[name.id] = self.lists[-1]
        elif self.home.get(name.id) not in self.lists:
            self.unsettled.add(name.id)
