"""Settings and errors of SQLite that both services share."""

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext


def forget_read_only(engine: Engine) -> None:
    """Let go of a connection that turns out to be read-only, so that the next one is opened anew.

    SQLite opens a file only for reading when the disk refuses to open it for writing, and says so at the first write.
    A pool would keep that connection, and no write would succeed any more after the disk is well again.
    """
    event.listen(engine, "handle_error", _let_go)


def _let_go(context: ExceptionContext) -> None:
    if "readonly database" in str(context.original_exception):
        context.is_disconnect = True
