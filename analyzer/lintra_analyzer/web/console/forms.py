"""Forms: their fields, and the proof that a page of this console sent them.

A browser sends the session's cookie with whatever it is made to send, so the cookie does not prove that the person
meant it. Two things do: the secret in the form, which only a page shown in that session holds, and the origin, which
the browser states itself.
"""

import hashlib
import hmac
import re
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from lintra_analyzer.web.admission import is_encrypted, session_of
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import ForbiddenError, InvalidMessageError

FIELD = "form_secret"
MOST_FIELDS = 4096

Form: TypeAlias = dict[str, list[str]]
"""What was filled in, by field."""


def form_secret(session: str) -> str:
    """Return the secret of a session's forms; the session's own cannot be computed from it."""
    return base64url(hmac.digest(session.encode(), b"lintra console form", hashlib.sha256))


async def filled_in(request: Request) -> Form:
    """Return what a form says, by field; empty fields are among it.

    Raises InvalidMessageError if it is no form, or one with thousands of fields.
    """
    kind, _, options = request.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind == "multipart/form-data":
        return with_file(await request.body(), options)[0]
    if kind != "application/x-www-form-urlencoded":
        raise InvalidMessageError("a form is sent as application/x-www-form-urlencoded")
    found: Form = {}
    try:
        text = (await request.body()).decode("ascii")
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"):
            found.setdefault(name, []).append(value)
    except ValueError:
        raise InvalidMessageError(f"a form holds UTF-8, percent-encoded, and at most {MOST_FIELDS} fields") from None
    return found


_BOUNDARY = re.compile(r"""\bboundary=(?:"([\w'()+,./:=? -]{1,70})"|([\w'()+,./:=?-]{1,70}))""", re.ASCII)
_PART = re.compile(rb'(?im)^content-disposition:\s*form-data;\s*name="([^"\r\n]{1,200})"(;\s*filename)?')


def with_file(body: bytes, options: str) -> tuple[Form, bytes]:
    """Return what a form of parts says, and the bytes of its file, empty if there is none (RFC 7578).

    `options` is what its type says behind the first semicolon. Raises InvalidMessageError if it is no such form.
    """
    found, form, file = _BOUNDARY.search(options), Form(), b""
    parts = [] if found is None else (b"\r\n" + body).split(b"\r\n--" + (found[1] or found[2]).encode())
    if not 3 <= len(parts) <= MOST_FIELDS or parts[0] or not parts[-1].startswith(b"--"):
        raise InvalidMessageError("a form with a file is sent as multipart/form-data, whole")
    for part in parts[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        named = _PART.search(head)
        if named is None:
            raise InvalidMessageError("a part of this form has no name")
        if named[2]:
            file = value
            continue
        try:
            form.setdefault(named[1].decode(), []).append(value.decode())
        except UnicodeDecodeError:
            raise InvalidMessageError("a form holds UTF-8") from None
    return form, file


def field(form: Form, name: str) -> str:
    """Return the last that a form says in a field, without white space around it; empty if nothing."""
    return form.get(name, [""])[-1].strip()


def require_own_origin(request: Request) -> None:
    """Check that a page of this address sent the request, by what the browser says.

    Raises ForbiddenError if another page did, or nobody says.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    host = request.headers.get("host", "")
    # A page that was loaded without encryption may have been changed on its way.
    schemes = {"https"} if is_encrypted(request) else {"http", "https"}
    if not host or origin.netloc != host or origin.scheme not in schemes:
        raise ForbiddenError("a form of this console is sent from its own pages only; open the page again")


async def require_own_form(request: Request) -> None:
    """Check that a form was sent from a page of the same session.

    Raises ForbiddenError if it was not; InvalidMessageError if it is no form.
    """
    require_own_origin(request)
    session = session_of(request.scope)
    said = field(await filled_in(request), FIELD)
    if session is None or not hmac.compare_digest(said.encode(), form_secret(session).encode()):
        raise ForbiddenError("the form is of another session; open the page again")
