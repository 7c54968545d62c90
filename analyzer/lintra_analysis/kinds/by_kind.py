"""What every mechanism brings to one room, looked up by kind and loaded when it is first asked for.

A package of the room is the table: the module that is called like the kind holds what the kind brings, under one name.
So a new mechanism adds its module and no line elsewhere, and nobody loads the modules of other kinds.
"""

from collections import UserDict
from importlib import import_module
from typing import TypeVar

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import MECHANISMS

T = TypeVar("T")


class ByKind(UserDict[str, T]):
    """One thing for each kind of mechanism; what is set by hand comes before what a module holds."""

    def __init__(self, package: str, name: str, brings: type[T]) -> None:
        """Make a table.

        `package` is the dotted name of the package whose modules are called like kinds. `name` is that of the constant
        in such a module.
        """
        super().__init__()
        self._package, self._name, self._brings = package, name, brings

    def __missing__(self, kind: str) -> T:
        """Load what a kind brings; raise InvalidTaskError if there is no such mechanism, or it brings nothing here."""
        # The name may be a stranger's: only that of a mechanism is ever imported.
        if kind not in MECHANISMS:
            raise InvalidTaskError(f"there is no mechanism {kind!r}; there are {', '.join(sorted(MECHANISMS))}")
        module = f"{self._package}.{kind}"
        try:
            found = getattr(import_module(module), self._name)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise InvalidTaskError(f"the mechanism {kind!r} brings no {module}") from None
        if not isinstance(found, self._brings):
            raise TypeError(f"{module}.{self._name} is no {self._brings.__name__}")
        self.data[kind] = found
        return found

    def all(self) -> dict[str, T]:
        """Return what every mechanism brings, by kind in alphabetical order."""
        return {kind: self[kind] for kind in sorted(MECHANISMS)}
