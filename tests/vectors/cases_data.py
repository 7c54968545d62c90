"""Vectors of the data plane: bytes, rows, shares, reports and uploads."""

import plain
import plain_blocks
from given import MECHANISMS, Vector, bad, definition, good, hexes, seed, task_id, text_rows, texts
from plain import b64, canonical, framed

# --- bytes ----------------------------------------------------------------------------------------------------


def hashing() -> list[Vector]:
    parts = {"no part": [], "an empty part": [b""], "two parts": [b"ab", b"c"], "cut elsewhere": [b"a", b"bc"]}
    result = []
    for name, given in parts.items():
        listed = [part.hex() for part in given]
        result.append(good(f"framing of {name}", "framed", framed("test", *given).hex(), label="test", parts=listed))
        result.append(good(f"hash of {name}", "hash", plain.H("test", *given).hex(), label="test", parts=listed))
    for count in (0, 1, 15, 16, 17, 100):
        stream = plain.keystream(bytes(range(32)), count).hex()
        result.append(
            good(f"{count} bytes of key stream", "keystream", stream, seed=bytes(range(32)).hex(), count=count)
        )
    derived = plain.derive(bytes(32), "a purpose", b"part").hex()
    result.append(
        good("a derived seed", "derive", derived, seed=bytes(32).hex(), label="a purpose", parts=[b"part".hex()])
    )
    result.append(
        good("a nonce's commitment", "nonce_commitment", plain.H("nonce", seed("n")).hex(), nonce=seed("n").hex())
    )
    ids = [seed("b"), seed("a")]
    result.append(
        good(
            "a receipt keeps the order of upload", "receipt_hash", b64(plain.H("receipt reports", *ids)), ids=hexes(ids)
        )
    )
    return result


def json_texts() -> list[Vector]:
    values: dict[str, object] = {
        "an empty object": {},
        "keys by UTF-16 code unit": {"b": 1, "a": 2, "B": 3, "é": 4, "😀": 5, "\uffff": 6},
        "nesting": {"list": [1, [True, False, None], {"x": "y"}], "z": {}},
        "escapes": 'quote " backslash \\ newline \n tab \t bell \x07 delete \x7f slash /',
        "text beyond ASCII": "Grüße, 世界, 😀",
        "integers": [0, -1, 2**53 - 1, 1 - 2**53],
    }
    result = [good(name, "parse_json", canonical(value), text=canonical(value)) for name, value in values.items()]
    refused = {
        "a space": '{"a": 1}', "a newline at the end": "{}\n", "keys out of order": '{"b":1,"a":2}',
        "a key twice": '{"a":1,"a":1}', "a float": "1.0", "an exponent": "1e3", "NaN": "NaN", "infinity": "Infinity",
        "minus zero": "-0", "an integer beyond 2^53 - 1": str(2**53), "one below minus that": str(-(2**53)),
        "keys by code point": '{"\uffff":1,"😀":2}',
        "a leading zero": "01", "a trailing comma": "[1,]", "an escaped slash": '"\\/"',
        "an escape where none is needed": '"\\u0041"', "an upper-case escape": '"\\u001F"', "half a pair": '"\\ud800"',
        "a raw control character": '"\n"', "a byte-order mark": "\ufeff1", "nothing": "", "half a document": '{"a":',
        "two documents": "{}{}", "single quotes": "{'a':1}", "deep nesting": "[" * 100_000,
    }  # fmt: skip
    return result + [bad(name, "parse_json", "invalid_message", text=text) for name, text in refused.items()]


def base64url_texts() -> list[Vector]:
    kept = (b"", b"\x00", b"\x00\x01", b"\x00\x01\x02", b"\xff" * 32, bytes(range(256)))
    result = [good(f"{len(data)} bytes", "parse_base64url", data.hex(), text=b64(data)) for data in kept]
    refused = {
        "padding": "AA==", "stray trailing bits": "AB", "five characters": "AAAAA", "plus": "+A", "slash": "/A",
        "a space": "AA AA", "a newline": "AAAA\n", "a letter beyond ASCII": "AAAÉ",
    }  # fmt: skip
    result += [bad(name, "parse_base64url", "invalid_message", text=text) for name, text in refused.items()]
    result.append(bad("another length", "parse_base64url", "invalid_message", text="AAAA", length=4))
    return result


# --- rows and shares ------------------------------------------------------------------------------------------


def encoding() -> list[Vector]:
    rows: list[tuple[str, list[float], int]] = [
        ("a row on the sphere", [6.0, -8.0], 100),
        ("a row that rounding would push out", [7.5, 6.6], 100),
        ("a row that rounding would push out by one", [0.7, 0.7], 1),
        ("a row outside", [30.0, 40.0], 100),
        ("a row inside", [2.4, -2.6], 100),
        ("ties go to even", [0.5, 1.5, 2.5, -0.5, -1.5], 100),
        ("a huge row", [1e308, -1e308, 0.0, 1e300], 2**40),
        ("the null row", [0.0, -0.0], 1),
        ("the smallest numbers", [5e-324, -2.2e-308], 2**60),
        ("the smallest ball", [0.4, 3.0], 1),
        ("the largest ball", [1e9, 1e9], 2**60),
    ]
    result = [
        good(name, "quantise", texts(plain.quantise(row, bound)), row=[repr(x) for x in row], squared_bound=str(bound))
        for name, row, bound in rows
    ]
    boxes: list[tuple[str, list[float], int]] = [
        ("a row inside the box", [2.4, -2.6, 9.4], 9),
        ("a row outside the box", [1e308, -9.51, 9.5], 9),
        ("ties go to even in the box too", [0.5, 1.5, -2.5], 2),
    ]
    result += [
        good(name, "clip_entries", texts(plain.clip_entries(row, bound)), row=[repr(x) for x in row], bound=str(bound))
        for name, row, bound in boxes
    ]
    published: list[tuple[str, str, int, int, int, int, str, int]] = [
        ("1", "0.000001", 10**6, 1024, 4, 10, "1048576", 0),
        ("1", "0.000001", 10**5, 64, 1, 50, "1048576", 100),
        ("0.5", "0.00001", 20000, 50, 2, 5, "524288", 10),
        ("1", "0.000001", 120, 1, 1, 1, "1073741823.5", 0),
    ]
    names = ("epsilon", "delta", "clients", "rows", "sparsity", "columns", "bound", "corrupt")
    result += [
        good(f"the published sigma {number}", "published_sigma", plain.published_sigma(*arguments),
             **dict(zip(names, arguments, strict=True)))
        for number, arguments in enumerate(published)
    ]  # fmt: skip
    for value in (0, 1, -1, -5, 2**63 - 1, -(2**63)):
        word = value % plain.RING
        result.append(good(f"{value} in the ring", "to_ring", str(word), value=str(value)))
        result.append(good(f"{value} in bytes", "ring_bytes", plain.words_bytes([word]).hex(), words=[str(word)]))
    for name, constant, trace in (("products", 0, False), ("products, intercept and squared norm", 7, True)):
        made = plain.products([3, -4, 5], constant, trace)
        options: dict[str, object] = {"intercept": str(constant), "trace": trace}
        result.append(good(name, "products", texts(made), steps=["3", "-4", "5"], **options))
    return result + _clip_counts() + _missing_rows()


def _missing_rows() -> list[Vector]:
    """What a row sends in which a number is missing: under an exact count its centre, under a noisy one nothing."""
    rows: list[tuple[str, list[float | None], bool]] = [
        ("whole", [0.25, -0.5], False), ("without its first number", [None, -0.5], False),
        ("without a number, moved elsewhere", [None, 1.0], True), ("without its second, too long", [3.0, None], False),
        ("without anything", [None, None], False),
    ]  # fmt: skip
    kinds = ("sum", "sum, clip count", "second_moment, both options, clip count", *MECHANISMS)
    return [
        good(f"{kind}: a row {name}", "missing_rows", texts(plain.missing_rows(MECHANISMS[kind], row, outside)),
             mechanism=MECHANISMS[kind], row=[None if x is None else repr(x) for x in row], outside=outside)
        for kind in dict.fromkeys(kinds) if kind in kinds[:3] or "row count" in kind
        for name, row, outside in rows
    ]  # fmt: skip


def _clip_counts() -> list[Vector]:
    """What rows send in the clip counter: inside, on the sphere, beyond it, and moved by a bound of a column."""
    rows: list[tuple[str, list[float], bool]] = [
        ("inside", [0.25, -0.5], False), ("on the sphere", [0.0, -1.0], False), ("the null row", [0.0, 0.0], False),
        ("outside", [0.75, -0.75], False), ("moved by a column's bound", [0.25, 0.5], True),
    ]  # fmt: skip
    return [
        good(f"{kind}: a row {name}", "clip_count", str(plain.clip_count(MECHANISMS[kind], row, outside)),
             mechanism=MECHANISMS[kind], row=[repr(x) for x in row], outside=outside)
        for kind in MECHANISMS if "clip count" in kind
        for name, row, outside in rows
    ]  # fmt: skip


def sharing() -> list[Vector]:
    masks = plain.words_bytes([plain.RING - 1, 9])
    shares = text_rows(plain.split([7], 3, masks))
    result = [good("one word among three servers", "split", shares, secret=["7"], servers=3, random=masks.hex())]
    for servers, words in ((2, 1), (2, 5), (5, 3)):
        random = plain.keystream(seed("masks"), 8 * words * (servers - 1))
        secret = plain.bytes_words(plain.keystream(seed("secret"), 8 * words))
        shares = text_rows(plain.split(secret, servers, random))
        inputs: dict[str, object] = {"secret": texts(secret), "servers": servers, "random": random.hex()}
        result.append(good(f"{words} words among {servers} servers", "split", shares, **inputs))
        result.append(good(f"{words} words from {servers} shares", "combine", texts(secret), shares=shares))
    for count in (1, 4, 100):
        expanded = plain.expand_share(seed("share"), count)
        result.append(
            good(f"{count} words of a seed", "expand_share", texts(expanded), seed=seed("share").hex(), words=count)
        )
    return result


# --- reports --------------------------------------------------------------------------------------------------

TIME = 12
KEY_ID = bytes(range(8))


def client_report(task: dict[str, object], row: list[int], random: bytes) -> dict[str, object]:
    servers = len(task["servers"])  # type: ignore[arg-type]
    return plain.report(task_id(task), row, TIME, servers, random, seeded=task["share_form"] == "seeded")


def reports() -> list[Vector]:
    result = []
    for form in ("uniform", "seeded"):
        for servers in (2, 3):
            task = definition(servers=servers, share_form=form)
            random = plain.keystream(seed("report"), 1000)
            made = client_report(task, [-5, 7], random)
            inputs: dict[str, object] = {
                "task": canonical(task),
                "row": ["-5", "7"],
                "time": TIME,
                "random": random.hex(),
            }
            output = {
                "report_id": made["report_id"].hex(),  # type: ignore[attr-defined]
                "header": made["header"].hex(),  # type: ignore[attr-defined]
                "shares": hexes(made["shares"]),  # type: ignore[arg-type]
            }
            result.append(good(f"a {form} report to {servers} servers", "make_report", output, **inputs))
    head = plain.header(bytes(32), TIME, [seed("a"), seed("b")])
    inputs = {"task_id": bytes(32).hex(), "time": TIME, "commitments": hexes([seed("a"), seed("b")])}
    result.append(good("a header", "header", head.hex(), **inputs))
    other = plain.header(bytes(32), TIME + 1, [seed("b"), seed("c")])
    for name, heads in {
        "a block of one": [head],
        "a block of two": [head, other],
        "another order": [other, head],
    }.items():
        context = plain_blocks.block_context(bytes(32), 1, KEY_ID, heads)
        result.append(good(f"the context of a block, {name}", "block_context", context.hex(), task_id=bytes(32).hex(),
                           server=1, key_id=KEY_ID.hex(), headers=hexes(heads)))  # fmt: skip
    return result


def sealed_block(task: dict[str, object], *reports: dict[str, object], **changes: object) -> bytes:
    """Return a block for server 1; `changes` replace its headers, shares, key's name or what it is sealed beside."""
    heads = changes.get("heads", [made["header"] for made in reports])
    shares = changes.get("shares", [made["shares"][1] for made in reports])  # type: ignore[index]
    key_id, name = changes.get("key_id", KEY_ID), task_id(task)
    info = changes.get("info", plain_blocks.block_context(name, 1, key_id, heads))  # type: ignore[arg-type]
    public = plain.x25519_public(seed("server 1 sealing"))
    sealed = plain.hpke_seal(public, seed("ephemeral"), info, b"".join(shares))  # type: ignore[arg-type]
    return plain_blocks.block(name, key_id, heads, sealed)  # type: ignore[arg-type]


def uploads() -> list[Vector]:
    """Uploads to server 1: every way to be wrong that the format or the seal shows."""
    task = definition()
    one, two, three = (
        client_report(task, row, plain.keystream(seed(name), 1000))
        for name, row in {"one": [-5, 7], "two": [16, 0], "three": [0, -16]}.items()
    )
    alone, pair = sealed_block(task, one), sealed_block(task, one, two)
    common: dict[str, object] = {
        "task": canonical(task), "server": 1, "key_id": KEY_ID.hex(), "private_key": seed("server 1 sealing").hex(),
    }  # fmt: skip
    right = {
        "one report": (plain_blocks.upload(alone), [one]),
        "two reports in one block": (plain_blocks.upload(pair), [one, two]),
        "the same in another order": (plain_blocks.upload(sealed_block(task, two, one)), [two, one]),
        "two blocks": (plain_blocks.upload(pair, sealed_block(task, three)), [one, two, three]),
    }
    result = [
        good(name, "open_upload", _opened(*reports), upload=data.hex(), **common)
        for name, (data, reports) in right.items()
    ]
    result += [*_tokens(), *_with_tokens()]
    wrong = [*_broken_frames(alone, pair), *_broken_blocks(task, one, two, three), *_broken_reports(task, one, two)]
    result += [
        bad(f"an upload, {name}", "open_upload", token, upload=data.hex(), **common) for name, token, data in wrong
    ]
    return result


def _opened(*reports: dict[str, object]) -> list[dict[str, object]]:
    return [
        {"report_id": made["report_id"].hex(), "time": TIME, "payload": made["shares"][1][33:].hex()}  # type: ignore[attr-defined, index]
        for made in reports
    ]


SECRET, SERIAL = seed("token secret"), seed("serial")[:16]
IDENTITIES = [plain.ed25519_public(seed(f"server {index}")) for index in range(3)]


def _token_task() -> tuple[dict[str, object], list[bytes]]:
    keys = plain.token_keys(SECRET, IDENTITIES)
    hashes = [b64(plain.H("token key commitment", key)) for key in keys]
    return definition(client_auth="token", token_keys=hashes), keys


def _tokens() -> list[Vector]:
    """Keys, tokens, and what each server checks."""
    task, keys = _token_task()
    name = task_id(task)
    whole = plain.token(keys, name, SERIAL)
    presented = [plain.token_pass(whole, server) for server in range(3)]
    common: dict[str, object] = {"key": keys[1].hex(), "task_id": name.hex()}
    made: dict[str, object] = {"secret": SECRET.hex(), "identities": [b64(key) for key in IDENTITIES]}
    return [
        good("token keys", "token_keys", hexes(keys), **made),
        good("hashes of token keys", "token_key_hashes", task["token_keys"], **made),
        good("a token", "token", b64(whole), task_id=name.hex(), serial=SERIAL.hex(), **made),
        good("a pass", "check_pass", SERIAL.hex(), presented=presented[1].hex(), **common),
        bad("a pass for another server", "check_pass", "token_invalid", presented=presented[0].hex(), **common),
        bad("a pass of another task", "check_pass", "token_invalid", presented=presented[1].hex(),
            **(common | {"task_id": seed("task").hex()})),
        bad("a changed serial", "check_pass", "token_invalid", presented=(b"x" + presented[1][1:]).hex(), **common),
        bad("a changed MAC", "check_pass", "token_invalid", presented=(presented[1][:-1] + b"x").hex(), **common),
    ]  # fmt: skip


def _with_tokens() -> list[Vector]:
    """Uploads of a task with tokens: their number and all passes come before all blocks."""
    task, keys = _token_task()
    one = client_report(task, [-5, 7], plain.keystream(seed("one"), 1000))
    two = client_report(task, [16, 0], plain.keystream(seed("two"), 1000))
    presented = plain.token_pass(plain.token(keys, task_id(task), SERIAL), 1)
    alone, pair = sealed_block(task, one), sealed_block(task, one, two)
    common: dict[str, object] = {
        "task": canonical(task), "server": 1, "key_id": KEY_ID.hex(), "private_key": seed("server 1 sealing").hex(),
    }  # fmt: skip
    right = {
        "a report with its pass": (plain_blocks.upload(alone, passes=[presented]), [one]),
        "two reports after their passes": (plain_blocks.upload(pair, passes=[presented, bytes(32)]), [one, two]),
        "two blocks after all passes": (plain_blocks.upload(alone, alone, passes=[presented, bytes(32)]), [one, one]),
    }
    wrong = {
        "a report without its pass": plain_blocks.upload(alone),
        "a pass behind its report": plain_blocks.upload(alone + presented, passes=[]),
        "a pass too few": plain_blocks.upload(pair, passes=[presented]),
        "a pass too many": plain_blocks.upload(alone, passes=[presented, presented]),
        "passes and no block": plain_blocks.upload(passes=[presented]),
        "passes and nothing": plain_blocks.upload(passes=[presented])[:-2],
    }
    return [
        *(good(name, "open_upload", _opened(*reports), upload=data.hex(), **common)
          for name, (data, reports) in right.items()),
        *(bad(name, "open_upload", "invalid_message", upload=data.hex(), **common) for name, data in wrong.items()),
    ]  # fmt: skip


def _broken_frames(alone: bytes, pair: bytes) -> list[tuple[str, str, bytes]]:
    one, after = b"\0\1" + alone, alone[2:]
    frames = {
        "empty": b"", "one byte": b"\0", "a number and nothing": b"\0\1", "truncated": one[:-1],
        "a trailing byte": one + b"\0", "no block": b"\0\0", "too few blocks": one + pair,
        "too many blocks": b"\0\2" + alone, "257 blocks": b"\1\1" + alone,
        "a little-endian number": b"\1\0" + alone,
        "a block of none": b"\0\1\0\0" + after, "a block of one that says two": b"\0\1\0\2" + after,
        "a block of two that says one": b"\0\1\0\1" + pair[2:],
        "a block of 257": b"\0\1\1\1" + after,
        "another format": b"\0\1" + alone[:10] + b"XX" + alone[12:],
        "another version": b"\0\1" + alone[:12] + b"\2" + alone[13:],
        "the task's name changed": b"\0\1" + alone[:13] + b"\xff" + alone[14:],
    }  # fmt: skip
    return [(name, "invalid_message", data) for name, data in frames.items()]


def _broken_blocks(
    task: dict[str, object], one: dict[str, object], two: dict[str, object], three: dict[str, object]
) -> list[tuple[str, str, bytes]]:
    """Reports taken out of a block, added, moved and exchanged; and blocks of another place."""
    name, pair = task_id(task), sealed_block(task, one, two)
    heads: list[bytes] = [one["header"], two["header"]]  # type: ignore[list-item]
    joined = plain_blocks.block_context(name, 1, KEY_ID, heads)
    seal = pair[45 + 2 * 104 :]
    share = len(one["shares"][1])  # type: ignore[index]

    def again(*reports: dict[str, object], sealed: bytes = seal) -> bytes:
        return plain_blocks.block(name, KEY_ID, [made["header"] for made in reports], sealed)  # type: ignore[misc]

    cases = [
        ("a report taken out of a block", "invalid_message", again(one)),
        ("a report and its share taken out", "decrypt_failed", again(one, sealed=seal[:-share])),
        ("a report added to a block", "invalid_message", again(one, two, three)),
        ("a report added with a share", "decrypt_failed", again(one, two, three, sealed=seal + bytes(share))),
        ("a report in place of another", "decrypt_failed", again(one, three)),
        ("a report twice in a block", "decrypt_failed", again(one, one)),
        ("headers in another order", "decrypt_failed", again(two, one)),
        ("sealed under another number", "decrypt_failed",
         sealed_block(task, one, two, info=plain_blocks.block_context(name, 1, KEY_ID, heads, count=1))),
        ("sealed under the name of another key", "decrypt_failed",
         sealed_block(task, one, two, info=plain_blocks.block_context(name, 1, bytes(8), heads))),
        ("sealed under another task", "decrypt_failed",
         sealed_block(task, one, two, info=plain_blocks.block_context(bytes(32), 1, KEY_ID, heads))),
        ("sealed for another server", "decrypt_failed",
         sealed_block(task, one, two, info=plain_blocks.block_context(name, 0, KEY_ID, heads))),
        ("sealed beside the first header only", "decrypt_failed",
         sealed_block(task, one, two, info=plain_blocks.block_context(name, 1, KEY_ID, heads[:1], count=2))),
        ("shares in another order", "commitment_mismatch",
         sealed_block(task, one, two, shares=[two["shares"][1], one["shares"][1]], info=joined)),  # type: ignore[index]
    ]  # fmt: skip
    return [(what, token, plain_blocks.upload(data)) for what, token, data in cases]


def _broken_reports(
    task: dict[str, object], one: dict[str, object], two: dict[str, object]
) -> list[tuple[str, str, bytes]]:
    other_task = definition(salt=b64(bytes(32)))
    other = client_report(other_task, [-5, 7], plain.keystream(seed("one"), 1000))
    head: bytes = one["header"]  # type: ignore[assignment]
    share: bytes = one["shares"][1]  # type: ignore[index]
    right = sealed_block(task, one)
    seeded = share[:32] + b"\1" + share[33:]
    commitments = [head[44 + 32 * j : 76 + 32 * j] for j in range(3)]
    commitments[1] = plain.commitment(task_id(task), 1, seeded[:32], b"\1", seeded[33:])
    sealed_at = 45 + 104
    cases = [
        ("of another task", "invalid_message", sealed_block(other_task, other)),
        ("beside another header", "decrypt_failed",
         plain_blocks.block(task_id(task), KEY_ID, [two["header"]], right[sealed_at:])),  # type: ignore[list-item]
        ("with another time", "decrypt_failed", right[:52] + b"\xff" + right[53:]),
        ("with another commitment", "decrypt_failed", right[:53] + bytes([right[53] ^ 1]) + right[54:]),
        ("with a changed seal", "decrypt_failed", right[:-1] + bytes([right[-1] ^ 1])),
        ("with another encapsulation", "decrypt_failed",
         right[:sealed_at] + bytes([right[sealed_at] ^ 1]) + right[sealed_at + 1 :]),
        ("sealed to a key that is gone", "outdated_key", sealed_block(task, one, key_id=bytes(8))),
        ("with another server's share", "commitment_mismatch", sealed_block(task, one, shares=[one["shares"][0]])),  # type: ignore[index]
        ("with another client's share", "commitment_mismatch", sealed_block(task, one, shares=[two["shares"][1]])),  # type: ignore[index]
        ("with another blind", "commitment_mismatch", sealed_block(task, one, shares=[bytes(32) + share[32:]])),
        ("with one word changed", "commitment_mismatch", sealed_block(task, one, shares=[share[:-1] + b"\0"])),
        ("of another form", "invalid_message",
         sealed_block(task, one, heads=[plain.header(task_id(task), TIME, commitments)], shares=[seeded])),
    ]  # fmt: skip
    return [(name, token, plain_blocks.upload(data)) for name, token, data in cases]
