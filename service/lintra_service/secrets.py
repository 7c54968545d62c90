"""Secrets in files: base64url that only its owner can read, drawn at the first start if that is allowed."""

import os
from collections.abc import Callable
from pathlib import Path

from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import InvalidMessageError
from lintra_service.settings import InvalidSettingsError

_OTHERS = 0o077


def read_secret(path: Path, length: int, create: bool, random_bytes: Callable[[int], bytes]) -> list[bytes]:
    """Read the secrets of a file, usually one; several are separated by commas or white space.

    `length` is that of each secret, in bytes; `create` says whether to draw one if there is no file. Raises
    InvalidSettingsError if the file is missing, malformed, or readable by others.
    """
    if not path.exists():
        if not create:
            raise InvalidSettingsError(f"{path} is missing; put the key back, or set create_keys = true for a new one")
        write_secret(path, base64url(random_bytes(length)))
    return parse_secrets(read_private(path), length, str(path))


def read_private(path: Path) -> str:
    """Read a file that only its owner can read; empty if it is not ASCII, which no secret is.

    Raises InvalidSettingsError if it cannot be read, or others can read it.
    """
    try:
        if path.stat().st_mode & _OTHERS:
            raise InvalidSettingsError(f"{path} can be read by others; set its mode to 0600")
        return path.read_text("ascii")
    except OSError as error:
        raise InvalidSettingsError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        return ""


def parse_secrets(text: str, length: int, origin: str) -> list[bytes]:
    """Parse at least one secret of `length` bytes in base64url; `origin` is named in the error.

    Raises InvalidSettingsError if there is none, or something else; the message does not show it.
    """
    try:
        found = [parse_base64url(word, length) for word in text.replace(",", " ").split()]
    except InvalidMessageError:
        found = []
    if not found:
        raise InvalidSettingsError(f"{origin} does not hold {length} bytes in base64url")
    return found


def write_secret(path: Path, text: str) -> None:
    """Write a line to a file that only its owner can read, durably, and never over another one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created with its final mode, so that there is no moment at which others can read it; and never overwritten.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
