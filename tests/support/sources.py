"""The syntax trees of the project's own modules, for the tests that read code: each is parsed once."""

import ast
from collections.abc import Callable, Iterator
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a module; a second of work for all of them. Nobody may change it."""
    return ast.parse(source)


def statements(parent: ast.AST, enters: Callable[[ast.AST], bool] = lambda _: True) -> Iterator[ast.stmt]:
    """Yield every statement below a node, without the expressions in them, which are nine tenths of a tree.

    Args:
        parent: a module, or a part of one.
        enters: whether the body of a statement is looked into; what stands in its `else` always is.
    """
    for part in ("body", "orelse", "finalbody"):
        if part == "body" and not enters(parent):
            continue
        for statement in getattr(parent, part, ()):
            yield statement
            yield from statements(statement, enters)
    for branch in (*getattr(parent, "handlers", ()), *getattr(parent, "cases", ())):
        yield from statements(branch, enters)
