"""The reference of problems: every way in which a party refuses, from the classes that are raised."""

import inspect

from lintra_protocol.http.problems import STATUS, TYPE_PREFIX, all_errors
from making.tables import cell, code, table


def problems_page() -> str:
    """Return the page with the token, status and meaning of every refusal.

    Raises:
        ValueError: a refusal has no sentence.
    """
    rows = []
    for error in sorted(set(all_errors()), key=lambda error: (STATUS.get(error, 0), error.token)):
        if error not in STATUS:
            continue
        title, _, rest = inspect.cleandoc(error.__doc__ or "").partition("\n")
        if not title.endswith("."):
            raise ValueError(f"{error.__name__}: its first line is no sentence: {title!r}")
        again = "yes" if error.retryable else "no"
        rows.append((code(error.token), str(STATUS[error]), again, cell(f"{title} {rest}")))
    return "\n".join([
        "# Problems\n",
        "Every refusal travels as a problem document (RFC 9457) whose `type` is",
        f"`{TYPE_PREFIX}` and the token below. A token never changes once it was released. \"Again\" says",
        "whether the same request may succeed later.\n",
        table(("token", "status", "again", "meaning"), rows),
    ])  # fmt: skip
