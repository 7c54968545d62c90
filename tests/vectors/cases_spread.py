"""Vectors of reports in the spread form: a seed and one part of the words for every server."""

import plain
from given import Vector, canonical, definition, good, hexes, seed, task_id, texts

TIME = 12


def parts(words: int, servers: int) -> list[range]:
    """Server j has the words from j w / N on, rounded down."""
    return [range(j * words // servers, (j + 1) * words // servers) for j in range(servers)]


def report(task: dict[str, object], row: list[int], random: bytes) -> dict[str, object]:
    """All seeds first, then the blinds; in its part a server holds what the seeds of all others leave."""
    servers, secret = len(task["servers"]), plain.to_words(row)  # type: ignore[arg-type]
    seeds = [random[32 * j : 32 * j + 32] for j in range(servers)]
    masks = [plain.expand_share(each, len(row)) for each in seeds]
    payloads = []
    for j, own in enumerate(parts(len(row), servers)):
        left = [(secret[i] - sum(masks[k][i] for k in range(servers) if k != j)) % plain.RING for i in own]
        payloads.append(b"\x04" + seeds[j] + plain.words_bytes(left))
    blinds = [random[32 * (servers + j) : 32 * (servers + j) + 32] for j in range(servers)]
    commitments = [plain.commitment(task_id(task), j, blinds[j], p[:1], p[1:]) for j, p in enumerate(payloads)]
    head = plain.header(task_id(task), TIME, commitments)
    return {
        "report_id": plain.H("report", head).hex(),
        "header": head.hex(),
        "shares": hexes([blind + payload for blind, payload in zip(blinds, payloads, strict=True)]),
    }


def spread() -> list[Vector]:
    """Reports of two words to two and three servers, of which one may have none, and shares that are put together."""
    result = []
    random = plain.keystream(seed("spread"), 1000)
    for servers in (2, 3):
        task = definition(servers=servers, share_form="spread")
        inputs: dict[str, object] = {
            "task": canonical(task), "row": ["-5", "7"], "time": TIME, "random": random.hex(),
        }  # fmt: skip
        made = report(task, [-5, 7], random)
        result.append(good(f"a spread report to {servers} servers", "make_report", made, **inputs))
    for words, servers in ((7, 3), (8, 2), (1, 5)):
        for j, own in enumerate(parts(words, servers)):
            explicit = plain.bytes_words(plain.keystream(seed(f"part {j}"), 8 * len(own)))
            share = plain.expand_share(seed("spread"), words)
            share[own.start : own.stop] = explicit
            payload = seed("spread") + plain.words_bytes(explicit)
            result.append(
                good(f"the share of server {j} of {servers}, {words} words", "expand_spread", texts(share),
                     payload=payload.hex(), server=j, servers=servers, words=words)
            )  # fmt: skip
    return result
