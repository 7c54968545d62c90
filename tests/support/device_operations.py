"""How the vectors of what a client on a device does are replayed against the package."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lintra_client.sending.sealed_reports import encode_together
from lintra_protocol.crypto.randomness import RandomBytes, keystream, system_randomness
from lintra_protocol.crypto.ring import ring_bytes, to_ring
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.mechanisms.layout import Block, Layout
from lintra_protocol.mechanisms.noise_law import GaussianLaw
from lintra_protocol.privacy.limits import usual_delta
from lintra_protocol.report.upload import decode_upload
from lintra_protocol.report.wire import block_context
from lintra_protocol.task import Task

unhex = bytes.fromhex


def _counting(stream: RandomBytes, replaced: dict[str, str]) -> tuple[RandomBytes, list[int]]:
    """Replace some 64-bit words of a stream, and count the bytes that are read of it."""
    read = [0]

    def source(count: int) -> bytes:
        words = np.frombuffer(stream(count), "<u8").copy()
        for place, word in replaced.items():
            if 0 <= int(place) - read[0] // 8 < words.size:
                words[int(place) - read[0] // 8] = int(word)
        read[0] += count
        return words.tobytes()

    return source, read


def _noise(sigmas: list[list[int]], seed: str, replaced: dict[str, str]) -> dict[str, object]:
    source, read = _counting(keystream(unhex(seed)), replaced)
    blocks = tuple(Block(f"{number}", size, sigma, 1) for number, (sigma, size) in enumerate(sigmas))
    words = GaussianLaw(4).noise(Layout(blocks), 1, source)[0]
    if words.size > 1000:
        return {"digest": domain_hash("test", ring_bytes(to_ring(words))).hex(), "bytes_read": read[0]}
    return {"words": [str(word) for word in words.tolist()], "bytes_read": read[0]}


def _promise(task: str, delta: str) -> str:
    checked = Task.from_canonical(task.encode())
    checked.check()
    return f"{checked.worst_privacy().epsilon_at(float(Fraction(delta))):.10e}"


def _promise_alone(task: str, delta: str) -> str | None:
    checked = Task.from_canonical(task.encode())
    checked.check()
    alone = checked.bound_alone()
    return None if alone is None else f"{alone.epsilon_at(float(Fraction(delta))):.10e}"


def _usual_delta(min_clients: int) -> list[str]:
    delta = usual_delta(min_clients)
    return [str(delta.numerator), str(delta.denominator)]


def _clip_flags(task: str, row: list[Any]) -> dict[str, bool]:
    read = Task.from_canonical(task.encode())
    made = encode_together(read, read.schema_arrays.row(row)[np.newaxis], read.not_before, system_randomness)
    return {"clipped": made.clipped[0], "incomplete": made.incomplete[0]}


def _seal_upload(
    task: str, server: int, key_id: str, public_key: str, private_key: str, header: str, share: str, presented: str,
    random: str,
) -> str:  # fmt: skip
    """Find the upload's bytes: the library seals with randomness of its own, so what the reference sealed is opened."""
    read = Task.from_canonical(task.encode())
    key = SealingKey(read.suite, unhex(private_key))
    assert key.public_bytes.hex() == public_key
    (vector,) = [each for each in _uploads() if each["input"]["random"] == random and each["input"]["task"] == task]
    (block,) = decode_upload(unhex(vector["output"]), read, server)
    info = block_context(read.id_bytes, server, unhex(key_id), [unhex(header)])
    assert (block.headers, block.key_id, b"".join(block.passes).hex()) == ((unhex(header),), unhex(key_id), presented)
    assert key.open(block.sealed, info).hex() == share
    return str(vector["output"])


def _uploads() -> list[dict[str, Any]]:
    return list(json.loads((Path(__file__).resolve().parents[1] / "vectors" / "upload.json").read_text("ascii")))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "printable": lambda text: is_printable(text),
    "noise": _noise,
    "promise": _promise,
    "promise_alone": _promise_alone,
    "usual_delta": _usual_delta,
    "clip_flags": _clip_flags,
    "seal_upload": _seal_upload,
}
