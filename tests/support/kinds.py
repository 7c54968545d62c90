"""A mechanism more for the length of a test: in the table of the protocol, and in whatever room it brings something."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel

from lintra_analysis.kinds.by_kind import ByKind
from lintra_analyzer.web import app
from lintra_protocol.mechanisms import MECHANISMS, Mechanism
from lintra_protocol.task import Task


@contextmanager
def added(kind: str, mechanism: type[Mechanism], brings: Sequence[tuple[ByKind[Any], object]]) -> Iterator[None]:
    """Add a mechanism to the table, and what it brings to those of the rooms; all is as before afterwards.

    In the product a mechanism stands in these places before anything is built. Here documents that hold a task are
    built again, since they take the table as it is when they are built.
    """
    MECHANISMS[kind] = mechanism
    for table, thing in brings:
        table.data[kind] = thing
    _rebuild()
    try:
        yield
    finally:
        del MECHANISMS[kind]
        for table, _ in brings:
            table.data.pop(kind, None)
        _rebuild()


def _rebuild() -> None:
    """Build `Task` and every document that holds one anew, those within others first, and then the routes."""
    app._routes.cache_clear()
    changed: set[type] = {Task}
    Task.model_rebuild(force=True)
    waiting = True
    while waiting:
        waiting = False
        for document in _subclasses(BaseModel):
            if document not in changed and _inside(document) & changed:
                document.model_rebuild(force=True)
                changed.add(document)
                waiting = True


def _inside(document: type[BaseModel]) -> set[object]:
    """Return what the fields of a document hold; any of several for one that is signed, whatever it is."""
    found = [field.annotation for field in document.model_fields.values()]
    each = [annotation.__constraints__ if isinstance(annotation, TypeVar) else (annotation,) for annotation in found]
    return {member for members in each for member in members}


def _subclasses(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in base.__subclasses__():
        yield child
        yield from _subclasses(child)
