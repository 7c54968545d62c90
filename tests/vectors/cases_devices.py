"""Vectors that a client on a device needs beside the others: texts, noise, promises, sealed uploads, odd signatures."""

import math
from base64 import urlsafe_b64encode
from collections.abc import Callable
from fractions import Fraction

import plain
import plain_blocks
import plain_ed25519 as curve
import plain_gaussian
import plain_mlkem
from cases_data import KEY_ID, SERIAL, client_report
from cases_layers import WINDOWS
from given import MECHANISMS, Vector, bad, claim, definition, good, seed, task_id, texts
from plain import b64, canonical, framed

# --- texts ----------------------------------------------------------------------------------------------------

PRINTABLE = {
    "letters": "Größe 身長", "a no-break space": "12\u00a0km", "a narrow one": "12\u202fkm", "an emoji": "\U0001f600",
    "an emoji of Unicode 15": "\U0001fae8", "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "an emoji with a variation": "\u2764\ufe0f", "a name with a variation": "\u8fbb\U000e0100",
    "a letter that Unicode does not have": "\U0003fffd", "a sign of replacement": "\ufffd", "nothing": "",
    "a joined letter": "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
}  # fmt: skip

UNPRINTABLE = [
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xE000, 0xF8FF), (0xFDD0, 0xFDEF), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), *((0x10000 * plane + 0xFFFE, 0x10000 * plane + 0xFFFF) for plane in
    range(1, 15)), (0xE0000, 0xE00FF), (0xE01F0, 0xE0FFF), (0xF0000, 0x10FFFF),
]  # fmt: skip
"""First and last of each class of characters that no text holds; surrogates, which no text can hold, left out."""


def printable() -> list[Vector]:
    """Both ends of every class, and the character before and after it where no other class has it."""
    result = [good(name, "printable", True, text=text) for name, text in PRINTABLE.items()]
    forbidden = [range(first, last + 1) for first, last in UNPRINTABLE]
    borders = {border for first, last in UNPRINTABLE for border in (first - 1, first, last, last + 1)}
    for point in sorted(border for border in borders if 0 <= border <= 0x10FFFF and not 0xD800 <= border <= 0xDFFF):
        held = not any(point in each for each in forbidden)
        result.append(good(f"U+{point:04X}", "printable", held, text=f"a{chr(point)}b"))
    for name, task, token in (
        ("a purpose of 2000 emoji", definition(purpose="\U0001f600" * 2000), None),
        ("a purpose of 2001 emoji", definition(purpose="\U0001f600" * 2001), "invalid_message"),
        ("a purpose that turns around", definition(purpose="a\u202eb"), "invalid_message"),
        ("a purpose with a no-break space", definition(purpose="12\u00a0km"), None),
    ):
        text = canonical(task)
        if token is None:
            result.append(good(name, "check_task", b64(task_id(task)), text=text))
        else:
            result.append(bad(name, "check_task", token, text=text))
    return result


def depths() -> list[Vector]:
    """Lists and objects one inside the other."""
    right = {"lists": "[" * 64 + "]" * 64, "objects": '{"a":' * 64 + "0" + "}" * 64}
    wrong = {"lists": "[" * 65 + "]" * 65, "objects": '{"a":' * 65 + "0" + "}" * 65, "many": "[" * 5000 + "]" * 5000}
    return [
        *(good(f"64 {name} deep", "parse_json", text, text=text) for name, text in right.items()),
        *(bad(f"too deep: {name}", "parse_json", "invalid_message", text=text) for name, text in wrong.items()),
    ]


# --- noise ----------------------------------------------------------------------------------------------------


class Stream:
    """A keystream of which some words are replaced; it is read in pieces, as a client reads it."""

    def __init__(self, key: bytes, replaced: dict[int, int]) -> None:
        self.words = plain.bytes_words(plain.keystream(key, 8 * 200_000))
        for place, word in replaced.items():
            self.words[place] = word
        self.at = 0

    def sample(self, count: int, sigma: int) -> list[int]:
        """Draw from whole pieces, each of five words a candidate; what is left of the last one is thrown away."""
        piece, begin = min(5 * (count * 2082 // 1000 + 5 * math.isqrt(count) + 4), 16384), self.at

        def word() -> int:
            self.at += 1
            return self.words[self.at - 1]

        drawn = plain_gaussian.samples(count, sigma, word)
        self.at = begin + piece * -(-(self.at - begin) // piece)
        return drawn


def noise() -> list[Vector]:
    """Words of a report in ascending order of sigma; rare branches are reached by words that are replaced."""
    steep, tie = 0, int(plain_gaussian.power(1, 64))
    cases: list[tuple[str, list[int], dict[int, int]]] = [
        ("one word", [4], {}),
        ("one word with much noise", [2**29 - 1], {}),
        ("twelve words", [100] * 12, {}),
        ("two deviations", [100, 142, 100, 142, 100], {}),
        ("the smaller one last", [150, 150, 3000, 100], {}),
        ("an exact count", [100, 100, 0], {}),
        ("78 words", [1000] * 78, {}),
        ("more than a block", [4] * 9000, {}),
        ("a start that is drawn again", [1000] * 3, {0: 2**64 - 1, 3: 2**64 - 1}),
        ("many steps", [1000] * 3, {19: steep, 20: 1}),
        ("a tie with a power of e", [1000] * 3, {20: tie, 21: tie + 1, 22: tie - 1}),
    ]
    result = []
    for name, sigmas, replaced in cases:
        key = seed(f"noise {name}")
        stream, words = Stream(key, replaced), [0] * len(sigmas)
        for sigma in sorted({sigma for sigma in sigmas if sigma}):
            places = [place for place, own in enumerate(sigmas) if own == sigma]
            for place, drawn in zip(places, stream.sample(len(places), sigma), strict=True):
                words[place] = drawn
        output = {"words": texts(words), "bytes_read": 8 * stream.at}
        changed = {str(place): str(word) for place, word in replaced.items()}
        spelled: object = [[sigmas[0], len(sigmas)]] if len(set(sigmas)) == 1 else [[sigma, 1] for sigma in sigmas]
        if len(words) > 1000:
            output = {"digest": plain.H("test", plain.words_bytes(plain.to_words(words))).hex(), **output}
            del output["words"]
        result.append(good(name, "noise", output, sigmas=spelled, seed=key.hex(), replaced=changed))
    return result


# --- promises -------------------------------------------------------------------------------------------------


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, Theorem 8, by the error function."""
    tails = [math.erfc(-x / math.sqrt(2)) / 2 for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
    return tails[0] - math.exp(epsilon) * tails[1]


def epsilon_of(mu: float, delta: float) -> float:
    return _halved(lambda epsilon: gaussian_delta(epsilon, mu) <= delta, 50.0)


def _halved(is_beyond: Callable[[float], bool], high: float) -> float:
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > 0 and is_beyond(middle) else (middle, high)
    return high


def promises() -> list[Vector]:
    """Epsilon of the worst release to eleven digits, replacing a row: what a device shows and what a ledger charges."""
    result = []
    for kind, sigma, clients, corrupt in (
        ("sum", 100, 4, 0), ("sum", 40, 40, 3), ("sum, row count", 100, 5, 1), ("sum, clip count", 120, 9, 0),
        ("second_moment", 600, 4, 0), ("second_moment", 200, 100, 40), ("second_moment, both options", 800, 12, 1),
        ("osnap", 100, 8, 0), ("osnap", 90, 31, 2), ("overlapping", 110, 16, 0),
    ):  # fmt: skip
        mechanism = MECHANISMS[kind] | {"sigma": sigma}
        promised = claim(epsilon="40", min_clients=clients, max_corrupt_clients=corrupt)
        task = definition(mechanism=mechanism, claim=promised)
        mu = _mu(mechanism, clients, corrupt)
        if kind == "overlapping":  # a matrix may be as bad as the claim allows
            mu = _halved(lambda mu: gaussian_delta(40.0, mu) > 1e-6, 20.0)
        result.append(good(f"{kind}, sigma {sigma}, {clients} clients, {corrupt} corrupt", "promise",
                           f"{epsilon_of(mu, 1e-6):.10e}", task=canonical(task), delta="0.000001"))  # fmt: skip
    for clients in (2, 1000, 999_999, 10**6, 10**6 + 1, 2**32):
        delta = min(Fraction(1, 10**6), Fraction(1, clients))
        result.append(good(f"the usual delta of {clients} clients", "usual_delta",
                           [str(delta.numerator), str(delta.denominator)], min_clients=clients))  # fmt: skip
    return result + _alone()


def _alone() -> list[Vector]:
    """Epsilon if everybody else is invented (Theorem T2), of all that a source may send; nothing where none is bound.

    Without a promise of it that is at most three times epsilon, nothing is bound.
    """
    merging: dict[str, object] = {"batches": "windowed", "windows": WINDOWS}
    result = []
    for kind, sigma, floor, clients, windows in (
        ("sum", 100, 0, 40, False), ("sum", 100, 40, 40, False), ("sum, clip count", 120, 60, 40, False),
        ("second_moment", 600, 300, 40, False), ("osnap", 100, 50, 80, False), ("sum", 100, 90, 40, True),
        ("sum", 100, 0, 40, True),
    ):  # fmt: skip
        mechanism = MECHANISMS[kind] | {"sigma": sigma} | ({"floor": floor} if floor else {})
        promised = claim(epsilon="20", min_clients=clients, epsilon_alone="20")
        task = definition(mechanism=mechanism, claim=promised, noise="both", **(merging if windows else {}))
        reports = math.sqrt(2 * 4) if windows else 1.0
        mu = reports * math.sqrt(_square(mechanism) / _lone_variance(sigma, floor, merged=windows))
        about = f"{kind}, sigma {sigma}, floor {floor}" + ", merged windows" * windows
        result.append(good(f"{about}, alone", "promise_alone", f"{epsilon_of(mu, 1e-6):.10e}", task=canonical(task),
                           delta="0.000001"))  # fmt: skip
    for epsilon, clients in (("2", 4), ("0.4", 40)):
        task = definition(
            mechanism=MECHANISMS["sum"] | {"sigma": 100}, claim=claim(epsilon=epsilon, min_clients=clients)
        )
        lone = epsilon_of(math.sqrt(_square(MECHANISMS["sum"]) / (100**2 - 4)), 1e-6)
        said = f"{lone:.10e}" if lone <= 3 * float(epsilon) else None
        result.append(good(f"clients' noise under epsilon {epsilon}, alone", "promise_alone", said,
                           task=canonical(task), delta="0.000001"))  # fmt: skip
    assert [vector.get("output") is None for vector in result[-2:]] == [False, True]
    return result


def _lone_variance(sigma: int, floor: int, *, merged: bool) -> int:
    return floor**2 - 4 + sigma**2 * (not (merged and floor))


def _mu(mechanism: dict[str, object], clients: int, corrupt: int) -> float:
    sigma = int(str(mechanism["sigma"]))
    honest = clients // int(str(mechanism.get("rows", 1))) - corrupt
    return math.sqrt(_square(mechanism) / (honest * sigma**2 - 4))


def _square(mechanism: dict[str, object]) -> int:
    unit = 2 ** int(str(mechanism["fraction_bits"]))
    bound = math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * unit**2)
    square = 4 * bound
    if mechanism["kind"] == "second_moment":
        constant = math.floor(Fraction(str(mechanism["intercept"])) * unit) ** 2
        square = (bound + constant) ** 2 if constant <= bound else 4 * constant * bound
    weight = Fraction(str(mechanism.get("clip_count_weight", "0")))
    return square + math.isqrt(math.floor(weight**2 * square)) ** 2


# --- rows -----------------------------------------------------------------------------------------------------

COLUMNS: list[dict[str, object]] = [
    {"name": "age", "lower": "0", "upper": "100", "center": "50", "scale": "50", "unit": ""},
    {"name": "smoker", "lower": "0", "upper": "1", "center": "0", "scale": "1", "unit": "", "kind": "boolean"},
    {"name": "sex", "lower": "0", "upper": "2", "center": "0", "scale": "1", "unit": "", "kind": "category",
     "levels": ["f", "m", "(other)"]},
]  # fmt: skip


def clip_flags() -> list[Vector]:
    """What a client says to its user of a row: whether it was moved or shortened, and whether a value was missing."""
    task = definition(columns=COLUMNS, mechanism=MECHANISMS["sum"] | {"row_bound": "1.5"})
    noisy = definition(columns=COLUMNS, mechanism=MECHANISMS["sum, row count"] | {"row_bound": "1.5"})
    rows: list[tuple[str, list[object], bool, bool]] = [
        ("inside", [50, 1, "m"], False, False), ("at a bound", [100, 0, "f"], False, False),
        ("beyond a bound", [100.5, 0, "f"], True, False), ("longer than the bound", [95, 1, "m"], True, False),
        ("without a number", [None, 1, "f"], False, True), ("without a level", [50, 1, None], False, False),
        ("of the reserved level", [50, 1, "(other)"], False, False),
        ("too long, and without a number", [120, None, "m"], True, True),
    ]  # fmt: skip
    result = []
    for name, row, clipped, incomplete in rows:
        for about, whole in (("", task), (", noisy count", noisy)):
            shown = {"clipped": clipped and not (incomplete and about), "incomplete": incomplete}
            result.append(good(f"a row {name}{about}", "clip_flags", shown, task=canonical(whole), row=row))
    book = {"levels": [{"level": "m", "label": "male", "synonyms": ["Mann"]}], "missing": ["9", "k. A."]}
    coded = definition(
        columns=[COLUMNS[0] | {"code_book": {"missing": ["-99"]}}, COLUMNS[1], COLUMNS[2] | {"code_book": book}],
        mechanism=MECHANISMS["sum"] | {"row_bound": "1.5"},
    )
    for name, row, incomplete in (
        ("with a label", [50, 1, " MALE"], False), ("with a synonym", [50, 1, "mann"], False),
        ("with a code for a missing number", [-99, 1, "f"], True),
        ("with one for a missing level", [50, 1, "9"], False),
    ):  # fmt: skip
        shown = {"clipped": False, "incomplete": incomplete}
        result.append(good(f"a row {name}", "clip_flags", shown, task=canonical(coded), row=row))
    codes = ["+98.0", "007", "1e2", "1e999999999", "1/2", "1_0"]
    numbers = definition(
        columns=[COLUMNS[0] | {"code_book": {"missing": codes}}, *COLUMNS[1:]],
        mechanism=MECHANISMS["sum"] | {"row_bound": "1.5"},
    )
    for value, incomplete in ((98, True), (7, True), (100, False), (0.5, False), (10, False)):
        shown = {"clipped": False, "incomplete": incomplete}
        name = f"of {value} beside the codes {', '.join(codes)}"
        result.append(good(f"a row {name}", "clip_flags", shown, task=canonical(numbers), row=[value, 1, "f"]))
    for name, row in (
        ("of another level", [50, 1, "x"]), ("of a level in capitals without a code book", [50, 1, "M"]),
        ("with a text for a number", ["50", 1, "f"]), ("with a number for a level", [50, 1, 1]),
        ("of too few values", [50, 1]),
    ):  # fmt: skip
        result.append(bad(f"a row {name}", "clip_flags", "invalid_row", task=canonical(task), row=row))
    return result


# --- signatures -----------------------------------------------------------------------------------------------


def signatures() -> list[Vector]:
    """Keys and R of small order, in every spelling; keys with a part of small order; S that is not reduced."""
    data, result = framed("test", b"part"), []

    def vector(name: str, key: bytes, signature: bytes, token: str | None, part: bytes = b"part") -> Vector:
        given: dict[str, object] = {
            "public_key": b64(key), "signature": b64(signature), "label": "test", "parts": [part.hex()]
        }  # fmt: skip
        return good(name, "verify", None, **given) if token is None else bad(name, "verify", token, **given)

    spelled = sorted({
        bytes([*spelling[:31], spelling[31] & 127 | sign])
        for point in curve.small_points() for sign in (0, 128)
        for spelling in [curve.encoded(point), *([curve.encoded(point, curve.P)] if point[1] < 19 else [])]
    })  # fmt: skip
    assert len(spelled) == 14
    neutral = curve.encoded(curve.NEUTRAL) + bytes(32)
    for number, key in enumerate(spelled):
        result.append(vector(f"a key of small order, spelling {number}", key, neutral, "invalid_message"))
        result += [
            bad(f"a task whose {entry} has it, spelling {number}", "check_task", "invalid_task",
                text=canonical(_with_key(entry, b64(key))))
            for entry in ("author", "server", "analyzer") if number % 4 == 1
        ]  # fmt: skip
    scalar = curve.secret_scalar(seed("server 0"))
    own = curve.times(scalar, curve.BASE)
    key = curve.encoded(own)
    right = curve.signature(scalar, 12345, key, data)
    result.append(vector("any nonce", key, right, None))
    nothing = curve.encoded(curve.NEUTRAL)
    forged = nothing + (curve.challenge(nothing, key, data) * scalar % curve.ORDER).to_bytes(32, "little")
    result.append(vector("R of small order, though the equation holds", key, forged, "unauthorized"))
    larger = int.from_bytes(right[32:], "little") + curve.ORDER
    result.append(vector("S beyond the order", key, right[:32] + larger.to_bytes(32, "little"), "unauthorized"))
    mixed = curve.encoded(curve.add(own, curve.small_points()[1]))
    for part in (bytes([number]) for number in range(64)):
        signed = curve.signature(scalar, 777, mixed, framed("test", part))
        whole = curve.challenge(signed[:32], mixed, framed("test", part)) % 8 == 0
        if whole or part == b"\0":
            name = "a key with a part of small order, which the challenge " + ("cancels" if whole else "keeps")
            result.append(vector(name, mixed, signed, None if whole else "unauthorized", part))
        if whole:
            break
    y = next(y for y in range(2, 19) if curve.roots_of_x(y))
    twice = curve.encoded((curve.roots_of_x(y)[0], y), curve.P)
    result.append(vector("a key that is spelled beyond the field", twice, right, "invalid_message"))
    return result


def _with_key(entry: str, key: str) -> dict[str, object]:
    task = definition()
    if entry == "author":
        return task | {"author_key": key}
    if entry == "analyzer":
        return task | {"analyzer": task["analyzer"] | {"identity_key": key}}  # type: ignore[operator]
    servers: list[dict[str, object]] = task["servers"]  # type: ignore[assignment]
    return task | {"servers": [servers[0] | {"identity_key": key}, *servers[1:]]}


# --- uploads --------------------------------------------------------------------------------------------------


def uploads() -> list[Vector]:
    """The bytes of an upload of one report, where the randomness of its seal is known."""
    result = []
    tokens = definition(
        client_auth="token", token_keys=[b64(plain.H("token key commitment", b"%d" % j)) for j in range(3)]
    )
    for name, task, passes in (
        ("x25519", definition(), None),
        ("x25519, with a token", tokens, [SERIAL + seed("MAC")[:16]]),
        ("mlkem768-x25519", definition(suite="mlkem768-x25519", analyzer=_hybrid_analyzer()), None),
    ):
        made = client_report(task, [-5, 7], plain.keystream(seed("one"), 1000))
        head: bytes = made["header"]  # type: ignore[assignment]
        share: bytes = made["shares"][1]  # type: ignore[index]
        info = plain_blocks.block_context(task_id(task), 1, KEY_ID, [head])
        private, ephemeral, coins = seed("server 1 sealing"), seed("ephemeral"), b""
        if name.startswith("mlkem"):
            coins, private = seed("coins"), bytes(range(64)) + private
            public = plain_mlkem.public_key(private[:64]) + plain.x25519_public(private[64:])
            sealed = plain_mlkem.hpke_seal_hybrid(public, coins, ephemeral, info, share)
            assert plain.hpke_open_hybrid(private, info, sealed) == share
        else:
            public = plain.x25519_public(private)
            sealed = plain.hpke_seal(public, ephemeral, info, share)
        data = plain_blocks.upload(plain_blocks.block(task_id(task), KEY_ID, [head], sealed), passes=passes)
        result.append(good(
            f"one report to server 1, {name}", "seal_upload", data.hex(), task=canonical(task), server=1,
            key_id=KEY_ID.hex(), public_key=public.hex(), private_key=private.hex(), header=head.hex(),
            share=share.hex(), presented="" if passes is None else passes[0].hex(), random=(coins + ephemeral).hex(),
        ))  # fmt: skip
    return result


def _hybrid_analyzer() -> dict[str, object]:
    analyzer: dict[str, object] = definition()["analyzer"]  # type: ignore[assignment]
    public = plain_mlkem.public_key(bytes(64)) + plain.x25519_public(seed("analyzer sealing"))
    return analyzer | {"sealing_key": urlsafe_b64encode(public).decode().rstrip("=")}
