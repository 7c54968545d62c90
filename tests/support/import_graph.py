"""The shape of the house, computed from its imports: rooms, floors, circles, and imports that run back up.

* A *module* is one .py file; it imports another if a statement anywhere in it says so, inside a function or behind
  `TYPE_CHECKING` too. `from package import name` leads to the module `package.name` if there is one.
* A *room* of a package is a module or folder directly inside it, without `__init__`; a room of the house is a package.
* A *circle* is a set of modules each of which leads to all others, by imports of imports.
* An import *runs back up* if it leads from one room to another that leads back to the first: then neither of the two
  rooms lies above the other.
* The *floor* of a room is 1 if it imports no other room of its kind, else one more than the highest that it imports.

A package's `__init__` with `__getattr__` names what it gives out, and is a room of its own, the face, on top.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.sources import parsed, statements

ROOT = Path(__file__).resolve().parents[2]
Graph = Mapping[str, frozenset[str]]


def sources() -> dict[str, str]:
    """Return the source of every module of the house by its dotted name."""
    found = {}
    for start in sorted(ROOT.glob("*/lintra_*")):
        for path in sorted(start.rglob("*.py")):
            parts = path.relative_to(start.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    return found


def import_graph(modules: Mapping[str, str]) -> Graph:
    """Return which modules each module imports, among those given."""
    return {name: frozenset(_imported(source, modules)) - {name} for name, source in modules.items()}


def _imported(source: str, known: Mapping[str, str]) -> Iterator[str]:
    for node in statements(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def reachable(graph: Graph) -> dict[str, frozenset[str]]:
    """Return what each node leads to, itself only if a circle leads back."""
    found = {}
    for start in graph:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting.extend(graph[node])
        found[start] = frozenset(seen)
    return found


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Return every set of nodes that lead to each other, sorted."""
    leads = reachable(graph)
    found = {tuple(sorted(other for other in leads[node] if node in leads[other])) for node in graph}
    return sorted(found - {()})


def room_of(module: str, package: str) -> str | None:
    """Return the room of `package` that a module is in; None for its `__init__` and for other packages' modules."""
    own, _, inner = module.partition(".")
    return inner.partition(".")[0] or None if own == package else None


def merged(graph: Graph, name_of: Mapping[str, str | None]) -> Graph:
    """Return the graph of rooms that a graph of modules makes."""
    rooms: dict[str, set[str]] = {room: set() for room in name_of.values() if room is not None}
    for module, targets in graph.items():
        room = name_of[module]
        for other in (name_of[target] for target in targets):
            if room is not None and other is not None and other != room:
                rooms[room].add(other)
    return {room: frozenset(others) for room, others in rooms.items()}


def rooms_of(graph: Graph, package: str) -> Graph:
    """Return which rooms of a package import which."""
    return merged(graph, {module: room_of(module, package) for module in graph})


def house(graph: Graph) -> Graph:
    """Return which packages import which."""
    return merged(graph, {module: module.partition(".")[0] for module in graph})


def upward(rooms: Graph) -> list[str]:
    """Return the imports between rooms that run back up."""
    leads = reachable(rooms)
    return sorted(f"{room} -> {other}" for room in rooms for other in rooms[room] if room in leads[other])


def floors(rooms: Graph) -> dict[str, int]:
    """Return the floor of every room.

    Raises:
        ValueError: an import runs back up, so that there are no floors.
    """
    if bad := upward(rooms):
        raise ValueError(f"rooms without floors: {', '.join(bad)}")
    found: dict[str, int] = {}
    while len(found) < len(rooms):
        for room in rooms:
            if room not in found and all(other in found for other in rooms[room]):
                found[room] = 1 + max((found[other] for other in rooms[room]), default=0)
    return found
