"""The bytes of a receipt and of the answer that brings it: for each upload there is one, and nothing has to be escaped.

`lintra_protocol.messages.documents` has the same as documents, whose bytes these are.
"""

from collections.abc import Sequence

KIND = "receipt"
"""The kind of the document, and the label under which it is signed."""


def receipt_bytes(task_id: str, server: int, count: int, reports: str) -> bytes:
    """Return the canonical encoding of a receipt; `reports` is the hash of what it covers."""
    head = f'{{"count":{count},"kind":"{KIND}","reports":"{reports}"'
    return f'{head},"server":{server},"task_id":"{task_id}"}}'.encode("ascii")


def signed_bytes(message: bytes, signature: str) -> bytes:
    """Return the canonical encoding of a signed message, in which that of the message stands as it was signed."""
    return b'{"message":%b,"signature":"%b"}' % (message, signature.encode("ascii"))


def answer_bytes(failures: Sequence[bytes], receipt: bytes) -> bytes:
    """Return the canonical encoding of an answer from those of its failures and of its signed receipt."""
    return b'{"failures":[%b],"receipt":%b}' % (b",".join(failures), receipt)
