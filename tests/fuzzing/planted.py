"""A decoder with a fault behind four branches, which blind changes reach once in 2^32 tries."""

from fuzzing.decoder import Decoder
from lintra_protocol.errors import InvalidMessageError


def _decode(data: bytes) -> bytes:
    if data[0:1] != b"L":
        raise InvalidMessageError("not this format")
    if data[1:2] != b"\x93":
        raise InvalidMessageError("not this version")
    if data[2:3] != b"#":
        raise InvalidMessageError("not this kind")
    if data[3:4] == b"\x07":
        raise KeyError("seven")
    return data


PLANTED = Decoder(_decode, [b"L"])
