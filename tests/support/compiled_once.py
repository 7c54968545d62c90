"""Databases that tests open share what SQLAlchemy compiles: it keeps statements by engine, and tests open thousands.

Nothing else is shared: every database has its own connections, its own events and its own options.
"""

from typing import Any

import sqlalchemy
from sqlalchemy import Engine

_KEPT: dict[object, object] = {}
_FIRST: list[Engine] = []


def create_engine(url: str, **options: Any) -> Engine:
    """Return an engine of its own, which compiles no statement that another one has compiled."""
    engine = sqlalchemy.create_engine(url, **options)
    if not _FIRST:
        # A dialect learns from its first connection; statements are kept by dialect, too.
        _FIRST.append(sqlalchemy.create_engine("sqlite://"))
        _FIRST[0].connect().close()
    engine.dialect = _FIRST[0].dialect
    engine.update_execution_options(compiled_cache=_KEPT)
    return engine
