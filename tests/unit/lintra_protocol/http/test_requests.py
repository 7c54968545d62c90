"""Signed requests and media types."""

from typing import get_args

import pytest

from lintra_protocol.errors import InvalidMessageError, UnauthorizedError, UnsupportedMediaTypeError
from lintra_protocol.http.requests import (
    REPLAY_WINDOW,
    MessageName,
    media_type,
    require_media_type,
    sign_request,
    verify_request,
)
from lintra_protocol.http.signature import DIGEST_HEADER, INPUT_HEADER, SIGNATURE_HEADER
from support import identity

KEY, NOW, NONCE, URL = identity("analyzer"), 1_700_000_000, bytes(range(16)), "https://a.example/v1/x"
HEADERS = sign_request(KEY, "PUT", URL, b"body", NOW, NONCE)


def verified(headers: dict[str, str] = HEADERS, now: int = NOW) -> bytes:
    return verify_request(KEY.public_key, "PUT", URL, headers, now).nonce


def test_a_signed_request_gives_its_nonce() -> None:
    assert verified() == NONCE


@pytest.mark.parametrize("offset", [-REPLAY_WINDOW, -1, 0, 1, REPLAY_WINDOW])
def test_clocks_may_differ_by_the_window(offset: int) -> None:
    assert verified(now=NOW + offset) == NONCE


@pytest.mark.parametrize("offset", [-REPLAY_WINDOW - 1, REPLAY_WINDOW + 1, -NOW])
def test_clocks_may_not_differ_by_more(offset: int) -> None:
    with pytest.raises(UnauthorizedError, match="check the clocks"):
        verified(now=NOW + offset)


@pytest.mark.parametrize("name", [DIGEST_HEADER, INPUT_HEADER, SIGNATURE_HEADER])
def test_every_header_is_needed(name: str) -> None:
    with pytest.raises(UnauthorizedError, match=name):
        verified({other: value for other, value in HEADERS.items() if other != name})


@pytest.mark.parametrize(
    "date", ["", "-1", "+5", "1e9", "1700000000.0", "١٧", " 1700000000", "01700000000", "9" * 16, "9" * 5000]
)
def test_a_date_is_a_number_of_seconds(date: str) -> None:
    with pytest.raises(InvalidMessageError):
        verified(HEADERS | {INPUT_HEADER: HEADERS[INPUT_HEADER].replace(f"created={NOW}", f"created={date}")})


def test_another_body_is_another_request() -> None:
    signed = verify_request(KEY.public_key, "PUT", URL, HEADERS, NOW)
    signed.require_body(b"body")
    for other in (b"", b"Body", b"body "):
        with pytest.raises(UnauthorizedError):
            signed.require_body(other)


def test_a_digest_that_was_not_signed_is_refused_before_any_body() -> None:
    other = sign_request(KEY, "PUT", URL, b"other", NOW, NONCE)
    with pytest.raises(UnauthorizedError):
        verified(HEADERS | {DIGEST_HEADER: other[DIGEST_HEADER]})


def test_a_nonce_has_sixteen_bytes() -> None:
    headers = sign_request(KEY, "PUT", URL, b"body", NOW, bytes(15))
    with pytest.raises(InvalidMessageError):
        verified(headers)


@pytest.mark.parametrize("name", get_args(MessageName))
def test_every_message_has_its_media_type(name: MessageName) -> None:
    text = media_type(name)
    assert text.endswith(f"message={name}")
    require_media_type(text, name)
    require_media_type(text.replace("; ", ";"), name)


@pytest.mark.parametrize(
    "text", [None, "", "application/json", media_type("task"), media_type("reports") + "; charset=utf-8"]
)
def test_another_media_type_is_refused_and_the_right_one_named(text: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="message=reports"):
        require_media_type(text, "reports")
