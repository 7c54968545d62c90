"""Signed requests against the standard's own example and against a library for RFC 9421 that shares no code with us."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver, InvalidSignature
from http_message_signatures.algorithms import ED25519

from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import UnauthorizedError
from lintra_protocol.http.requests import COVERED, SIGNATURE_TAG, sign_request, verify_request
from lintra_protocol.http.signature import content_digest, signature_base, signature_parameters
from support import identity

KEY, URL, BODY = identity("analyzer"), "https://a.example/v1/tasks/x/batches/0/cohort", b'{"inventories":[]}'


class _Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id: str) -> Ed25519PrivateKey:
        assert key_id == KEY.public_key
        return Ed25519PrivateKey.from_private_bytes(KEY.private_bytes)

    def resolve_public_key(self, key_id: str) -> object:
        return self.resolve_private_key(key_id).public_key()


def now() -> int:
    return int(datetime.now(UTC).timestamp())


def test_the_standards_example_of_ed25519_is_reproduced() -> None:
    # RFC 9421, appendix B.2.6, with the key of B.1.4.
    key = SigningKey(b64decode("n4Ni+HpISpVObnQMW0wOhCKROaIKqKtW/2ZYb2p9KcU="))
    covered = [
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("@method", "POST"),
        ("@path", "/foo"),
        ("@authority", "example.com"),
        ("content-type", "application/json"),
        ("content-length", "18"),
    ]
    parameters = signature_parameters(
        [name for name, _ in covered], {"created": 1618884473, "keyid": "test-key-ed25519"}
    )
    assert parameters == (
        '("date" "@method" "@path" "@authority" "content-type" "content-length")'
        ';created=1618884473;keyid="test-key-ed25519"'
    )
    signature = b64encode(key.sign_base(signature_base(covered, parameters))).decode()
    assert signature == "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="


def test_the_standards_example_of_a_digest_is_reproduced() -> None:
    # RFC 9530, appendix B.1, without the line feed at its end as RFC 9421, appendix B.2 has it.
    assert content_digest(b'{"hello": "world"}') == "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"


@pytest.mark.parametrize("body", [b"", BODY])
def test_the_library_accepts_what_we_sign(body: bytes) -> None:
    request = httpx2.Request("PUT", URL, content=body)
    request.headers.update(sign_request(KEY, "PUT", URL, body, now(), bytes(range(16))))
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=_Keys())
    (found,) = verifier.verify(request, body=body, expect_tag=SIGNATURE_TAG, max_age=timedelta(seconds=300))
    assert found.parameters["tag"] == SIGNATURE_TAG
    request.method = "POST"
    with pytest.raises(InvalidSignature):
        verifier.verify(request, expect_tag=SIGNATURE_TAG, max_age=timedelta(seconds=300))


@pytest.mark.parametrize("include_alg", [False, True])
def test_we_accept_what_the_library_signs(include_alg: bool) -> None:
    request = httpx2.Request("PUT", URL, content=BODY)
    request.headers["content-digest"] = content_digest(BODY)
    signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=_Keys())
    nonce = bytes(range(16))
    signer.sign(
        request, key_id=KEY.public_key, created=datetime.now(UTC), nonce=base64url(nonce), tag=SIGNATURE_TAG,
        label="sig1", include_alg=include_alg, covered_component_ids=COVERED, body=BODY,
        use_existing_digest=True,
    )  # fmt: skip
    signed = verify_request(KEY.public_key, "PUT", URL, request.headers, now())
    assert signed.nonce == nonce
    signed.require_body(BODY)
    with pytest.raises(UnauthorizedError):
        verify_request(KEY.public_key, "PUT", URL + "/", request.headers, now())
