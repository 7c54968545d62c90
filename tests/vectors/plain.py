"""The protocol a second time, in plain Python integers, bytes and dictionaries; it shares no code with the package.

Written from docs/reference/protocol.md, to be read beside it: the shortest form of every step, however slow. Only AES,
X25519, ML-KEM and Ed25519 come from a library.
"""

import hashlib
import hmac
import math
from base64 import b64encode, urlsafe_b64encode
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import isqrt
from statistics import NormalDist
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

RING = 2**64

# --- bytes ----------------------------------------------------------------------------------------------------


def framed(label: str, *parts: bytes) -> bytes:
    result = b"lintra/1 " + label.encode() + b"\x00"
    for part in parts:
        result += len(part).to_bytes(8, "big") + part
    return result


def H(label: str, *parts: bytes) -> bytes:
    return hashlib.sha256(framed(label, *parts)).digest()


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def canonical(value: object) -> str:
    """Write a value by hand: keys sorted by UTF-16 code units, no whitespace, the shortest escapes (RFC 8785)."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in sorted(value, key=_utf16)) + "}"
    assert isinstance(value, list | tuple)
    return "[" + ",".join(canonical(item) for item in value) + "]"


def indicators(columns: list[dict[str, object]], row: list[float]) -> list[float]:
    """Return a row as numbers count it: moved into the bounds, centred, scaled; a category as zeros and ones."""
    numbers: list[float] = []
    for column, value in zip(columns, row, strict=True):
        levels = column.get("levels")
        if isinstance(levels, list):
            numbers += [1.0 if value == level else 0.0 for level in range(1, len(levels))]
        else:
            lower, upper, center, scale = (float(str(column[key])) for key in ("lower", "upper", "center", "scale"))
            numbers.append((min(max(value, lower), upper) - center) / scale)
    return numbers


def _utf16(key: str) -> list[int]:
    units: list[int] = []
    for character in key:
        point = ord(character)
        beyond = point - 0x10000
        units += [point] if beyond < 0 else [0xD800 + (beyond >> 10), 0xDC00 + (beyond & 0x3FF)]
    return units


def _escaped(character: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if character in short:
        return short[character]
    return f"\\u{ord(character):04x}" if ord(character) < 32 else character


# --- randomness -----------------------------------------------------------------------------------------------


def keystream(seed: bytes, count: int) -> bytes:
    """AES-256 of 0, 1, 2, .., one block each."""
    numbers = b"".join(block.to_bytes(16, "big") for block in range(-(-count // 16)))
    return _AES(seed, numbers)[:count]


def AES(key: bytes, number: int) -> bytes:
    return _AES(key, number.to_bytes(16, "big"))


def _AES(key: bytes, blocks: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)


def derive(seed: bytes, label: str, *parts: bytes) -> bytes:
    return H("derive", seed, label.encode(), *parts)


# --- rows -----------------------------------------------------------------------------------------------------


def quantise(row: list[float], squared_bound: int) -> list[int]:
    """Clip to the ball in exact arithmetic, round to nearest; truncate what rounding pushed out."""
    exact = [Fraction(value) for value in row]
    norm = sum(value**2 for value in exact)
    shrink = min(Fraction(1), Fraction(squared_bound) / norm) if norm else Fraction(1)
    if norm <= squared_bound:
        rounded = [round(value) for value in exact]
    else:
        rounded = [_signed(value, _root(value**2 * shrink, nearest=True)) for value in exact]
    if sum(value**2 for value in rounded) > squared_bound:
        rounded = [_signed(value, _root(value**2 * shrink, nearest=False)) for value in exact]
    return rounded


def _root(square: Fraction, *, nearest: bool) -> int:
    floor = isqrt(square.numerator // square.denominator)
    return floor + 1 if nearest and square > (floor + Fraction(1, 2)) ** 2 else floor


def _signed(value: Fraction, size: int) -> int:
    return size if value >= 0 else -size


def clip_entries(row: list[float], bound: int) -> list[int]:
    """Round to nearest, then into [-bound, bound]."""
    return [max(-bound, min(bound, round(Fraction(value)))) for value in row]


def products(row: list[int], constant: int = 0, trace: bool = False) -> list[int]:
    """The upper triangle, after the products with a constant and before the squared norm, if there are any."""
    triangle = [row[i] * row[j] for i in range(len(row)) for j in range(i, len(row))]
    return [constant * x for x in row if constant] + triangle + [sum(x * x for x in row)] * trace


def missing_rows(mechanism: dict[str, object], row: list[float | None], outside: bool) -> list[int]:
    """The noiseless report of a normalised row in which numbers may be missing: zeros, or the centre in their place."""
    counted = mechanism.get("count") == "noisy"
    filled = [0.0 if value is None else value for value in row]
    unit = 2 ** int(str(mechanism["fraction_bits"]))
    longest = math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * unit**2)
    steps = quantise([value * unit for value in filled], longest)
    if mechanism["kind"] == "second_moment":
        constant = math.floor(Fraction(str(mechanism["intercept"])) * unit)
        words = products(steps, constant, bool(mechanism["trace"])) + [constant**2] * counted
    else:
        words = steps + [isqrt(longest // 4)] * counted
    if "clip_count_weight" in mechanism:
        words.append(clip_count(mechanism, filled, outside))
    return [0] * len(words) if counted and None in row else words


def clip_count(mechanism: dict[str, object], row: list[float], outside: bool) -> int:
    """What a normalised row sends in the clip counter: 0, or the weight times the distance of two replaced rows.

    In a sketch of m rows, whose counter is a total over all of them, it is sqrt(m) times that.
    """
    bound, weight = (Fraction(str(mechanism[field])) for field in ("row_bound", "clip_count_weight"))
    unit = 2 ** int(str(mechanism["fraction_bits"]))
    longest = math.floor(bound**2 * unit**2)
    square = 4 * longest * int(str(mechanism.get("rows", 1)))
    if mechanism["kind"] == "second_moment_wishart":
        square = longest**2
    if mechanism["kind"] == "second_moment":
        constant = math.floor(Fraction(str(mechanism["intercept"])) * unit) ** 2
        square = (longest + constant) ** 2 if constant <= longest else 4 * constant * longest
        if mechanism.get("count") == "noisy":
            # Against a row that is left out; the trace adds as much as the squares.
            traced = longest**2 if mechanism["trace"] else 0
            square = max(Fraction(square), Fraction((longest + constant) ** 2 + traced, 2))
    clipped = outside or sum(Fraction(value) ** 2 for value in row) > bound**2
    if mechanism["kind"] == "osnap_published":
        clipped = outside or any(abs(Fraction(value)) > Fraction(str(mechanism["entry_bound"])) for value in row)
    return isqrt(math.floor(weight**2 * square)) if clipped else 0


# --- shares and reports ---------------------------------------------------------------------------------------


def to_words(values: list[int]) -> list[int]:
    return [value % RING for value in values]


def words_bytes(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)


def bytes_words(data: bytes) -> list[int]:
    return [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]


def last_share(secret: list[int], masks: list[list[int]]) -> list[int]:
    return [(word - sum(mask[i] for mask in masks)) % RING for i, word in enumerate(secret)]


def split(secret: list[int], servers: int, random: bytes) -> list[list[int]]:
    words = bytes_words(random)
    masks = [words[server * len(secret) : (server + 1) * len(secret)] for server in range(servers - 1)]
    return [*masks, last_share(secret, masks)]


def expand_share(seed: bytes, count: int) -> list[int]:
    return bytes_words(hashlib.shake_128(framed("share seed", seed)).digest(8 * count))


def commitment(task_id: bytes, server: int, blind: bytes, form: bytes, payload: bytes) -> bytes:
    return H("share", task_id, server.to_bytes(2, "big"), blind, form, payload)


def header(task_id: bytes, time: int, commitments: list[bytes], magic: bytes = b"LR\x01") -> bytes:
    return magic + task_id + time.to_bytes(8, "big") + bytes([len(commitments)]) + b"".join(commitments) + b"\x00\x00"


def report(
    task_id: bytes, row: list[int], time: int, servers: int, random: bytes, *, seeded: bool
) -> dict[str, object]:
    """Share a noised row with the bytes of `random`, read from the beginning: shares first, then the blinds."""
    secret = to_words(row)
    used = 32 * (servers - 1) if seeded else 8 * len(row) * (servers - 1)
    if seeded:
        seeds = [random[32 * server : 32 * server + 32] for server in range(servers - 1)]
        masks = [expand_share(seed, len(row)) for seed in seeds]
        payloads = [b"\x01" + seed for seed in seeds] + [b"\x00" + words_bytes(last_share(secret, masks))]
    else:
        payloads = [b"\x00" + words_bytes(share) for share in split(secret, servers, random[:used])]
    blinds = [random[used + 32 * server : used + 32 * server + 32] for server in range(servers)]
    commitments = [commitment(task_id, j, blinds[j], payloads[j][:1], payloads[j][1:]) for j in range(servers)]
    head = header(task_id, time, commitments)
    shares = [blind + payload for blind, payload in zip(blinds, payloads, strict=True)]
    return {"header": head, "report_id": H("report", head), "shares": shares}


# --- lists ----------------------------------------------------------------------------------------------------


def merkle_root(ids: list[bytes]) -> bytes:
    """The tree of RFC 6962 with labelled hashes: the left half is the largest power of two below the size."""
    if not ids:
        return H("merkle empty")
    return _subtree([ids[start : start + 64] for start in range(0, len(ids), 64)], 0)


def _subtree(leaves: list[list[bytes]], first: int) -> bytes:
    if len(leaves) == 1:
        return H("merkle leaf", first.to_bytes(8, "big"), b"".join(leaves[0]))
    half = _left_size(len(leaves))
    return H("merkle node", _subtree(leaves[:half], first) + _subtree(leaves[half:], first + half))


def inclusion(ids: list[bytes], position: int) -> dict[str, object]:
    leaves = [ids[start : start + 64] for start in range(0, len(ids), 64)]
    siblings = [sibling.hex() for sibling in _siblings(leaves, 0, position // 64)]
    return {"leaf": position // 64, "leaf_ids": b"".join(leaves[position // 64]).hex(), "siblings": siblings}


def absence(ids: list[bytes], wanted: bytes) -> list[dict[str, object]]:
    """The leaves of the neighbours between which an identifier would stand: one leaf if they share it."""
    below = [place for place, own in enumerate(ids) if own < wanted]
    above = [place for place, own in enumerate(ids) if own > wanted]
    neighbours = below[-1:] + above[:1]
    return [inclusion(ids, 64 * leaf) for leaf in sorted({place // 64 for place in neighbours})]


def _siblings(leaves: list[list[bytes]], first: int, wanted: int) -> list[bytes]:
    """From the leaf upwards."""
    if len(leaves) == 1:
        return []
    half = _left_size(len(leaves))
    left, right = leaves[:half], leaves[half:]
    if wanted < first + half:
        return [*_siblings(left, first, wanted), _subtree(right, first + half)]
    return [*_siblings(right, first + half, wanted), _subtree(left, first)]


def positions(ascending: list[int]) -> bytes:
    """The gaps between them, seven bits a byte, the lowest first; a byte that is not the last has its top bit set."""
    result, before = bytearray(), -1
    for position in ascending:
        gap, before = position - before - 1, position
        while gap >= 128:
            result.append(128 + gap % 128)
            gap //= 128
        result.append(gap)
    return bytes(result)


def _left_size(size: int) -> int:
    half = 1
    while 2 * half < size:
        half *= 2
    return half


# --- the release ----------------------------------------------------------------------------------------------


Batch = int | tuple[int, int]
"""The number of a batch; of windows that were merged the last and the first."""


def numbers(batch: Batch) -> list[bytes]:
    return [each.to_bytes(8, "big") for each in ((batch,) if isinstance(batch, int) else batch)]


def late_seed(task_id: bytes, batch: Batch, root: bytes, nonces: list[bytes], attempt: int) -> bytes:
    return H("seed", task_id, *numbers(batch), root, *nonces, bytes([attempt]))


def nonce_commitment(task_id: bytes, batch: Batch, nonce: bytes) -> bytes:
    """In a task with windows."""
    return H("nonce", task_id, *numbers(batch), nonce)


def aggregate_context(task_id: bytes, batch: Batch, server: int, root: bytes, seed: bytes) -> bytes:
    """In a task with windows."""
    return framed("aggregate", task_id, server.to_bytes(2, "big"), root, seed, *numbers(batch))


Entries = list[tuple[int, int]]
"""One column's nonzero entries, each a row number and a sign."""


def balanced_matrix(rows: int, clients: int, seed: bytes, sparsity: int = 1) -> list[Entries]:
    """Return the entries of every client's column, one in each of `sparsity` blocks of rows."""
    words = bytes_words(keystream(derive(seed, "osnap balanced"), 8 * clients * sparsity))
    columns: list[Entries] = [[] for _ in range(clients)]
    for block in range(sparsity):
        first, after = block * rows // sparsity, (block + 1) * rows // sparsity
        own = words[block * clients : (block + 1) * clients]
        for position, client in enumerate(sorted(range(clients), key=lambda one: (own[one] // 2, one))):
            columns[client].append((first + position % (after - first), 1 - 2 * (own[client] % 2)))
    return columns


def network_entries(rows: int, clients: int, seed: bytes, sparsity: int, client: int) -> Entries:
    """The same where there are more than 2^20 clients: one column, computed by itself."""
    side = math.isqrt(clients - 1) + 1
    words = bytes_words(keystream(derive(seed, "osnap network"), 8 * 10 * side * sparsity))
    signs = AES(derive(seed, "osnap signs"), client)
    entries: Entries = []
    for block in range(sparsity):
        first, after = block * rows // sparsity, (block + 1) * rows // sparsity
        position = client
        while True:
            left, right = position // side, position % side
            for turn in range(10):
                shift = words[(10 * block + turn) * side + right] % side
                left, right = right, (left + shift) % side
            position = left * side + right
            if position < clients:
                break
        entries.append((first + position % (after - first), 1 - 2 * (signs[block // 8] // 2 ** (block % 8) % 2)))
    return entries


def sketch(
    rows: int, columns: list[Entries], shares: list[list[int]], copies: int = 1, totals: int = 0
) -> list[list[int]]:
    """Add signed shares to rows; with several copies in a share, entry j of a column applies to copy j.

    The last words of a share, `totals` many, have no signs and no rows: their sums stand behind row 0, zeros elsewhere.
    """
    size = (len(shares[0]) - totals) // copies
    sums = [sum(share[size * copies + place] for share in shares) % RING for place in range(totals)]
    result = [[0] * size for _ in range(rows)]
    for entries, share in zip(columns, shares, strict=True):
        for entry, (row, sign) in enumerate(entries):
            copy = share[size * (entry % copies) :][:size]
            result[row] = [(total + sign * word) % RING for total, word in zip(result[row], copy, strict=True)]
    return [row + (sums if number == 0 else [0] * totals) for number, row in enumerate(result)]


def counting_sigma(
    mechanism: dict[str, object], epsilon: float, delta: float, clients: int, corrupt: int = 0, quota: int = 0
) -> int:
    """The least noise of a sketch with a clip counter, replacing a row: mu^2 of both, each with what is behind it.

    With one entry in a column c = floor(n/m) - q honest clients less the lattice's 4 stand behind a number, with more
    the planned leverage says how many; behind the counter n - t, less 4.
    """
    rows, unit = int(str(mechanism["rows"])), 2 ** int(str(mechanism["fraction_bits"]))
    bound, weight = (Fraction(str(mechanism[field])) for field in ("row_bound", "clip_count_weight"))
    square = 4 * math.floor(bound**2 * unit**2)
    counted = isqrt(math.floor(weight**2 * square * rows)) ** 2
    leverage, taken = Fraction(str(mechanism["leverage"])), 0
    if leverage == 0:
        leverage, taken = Fraction(1, clients // rows - quota), 4
    allowed = gaussian_mu(epsilon, delta) ** 2
    sigma = 4 if taken else 8
    while square / (sigma**2 / leverage - taken) + counted / Fraction((clients - corrupt) * sigma**2 - 4) > allowed:
        sigma += 1
    return sigma


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest distance of two unit Gaussians that are (epsilon, delta) apart, by halving."""
    low, high = 0.0, 100.0
    for _ in range(200):
        mu = (low + high) / 2
        spent = NormalDist().cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * NormalDist().cdf(-mu / 2 - epsilon / mu)
        low, high = (mu, high) if spent < delta else (low, mu)
    return low


def study_sigma(mechanism: dict[str, object], epsilon: float, delta: float, part: float, clients: int) -> int:
    """The least noise of a plain sum that may spend a part of its study's mu^2, replacing a row."""
    square = 4 * math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * 4 ** int(str(mechanism["fraction_bits"])))
    sigma = 4
    while square / Fraction(clients * sigma**2 - 4) > part * gaussian_mu(epsilon, delta) ** 2:
        sigma += 1
    return sigma


def window_of(task: dict[str, Any], time: int) -> int:
    """Count the windows that ended until a time."""
    ends, number = task["not_before"] + task["windows"]["window"], 0
    while ends <= time:
        ends, number = ends + task["windows"]["window"], number + 1
    return number


def span(task: dict[str, Any], number: int) -> list[int]:
    length = task["windows"]["window"]
    return [task["not_before"] + number * length, task["not_before"] + (number + 1) * length]


def published_sigma(
    epsilon: str, delta: str, clients: int, rows: int, sparsity: int, columns: int, bound: str, corrupt: int
) -> int:
    """Equation (4) of Burkhardt et al. 2025, rounded up; `bound` and the result in integer steps."""
    c = Context(prec=100)
    n, m, s, d = clients - sparsity - corrupt, rows, sparsity, columns
    failure = c.multiply(m, c.exp(c.divide(-n, 8 * m)))
    margin = c.subtract(c.divide(Decimal(delta), d), failure)
    logarithm = c.ln(c.divide(c.multiply(Decimal("1.25"), s), margin))
    square = c.divide(
        c.multiply(c.multiply(4 * s**3 * m * d**2, c.power(Decimal(bound), 2)), logarithm),
        c.multiply(c.power(Decimal(epsilon), 2), n),
    )
    return int(c.sqrt(square).to_integral_value(ROUND_CEILING))


def lift(word: int) -> int:
    return word - RING if word >= RING // 2 else word


def decode(
    kind: str,
    words: list[list[int]],
    fraction_bits: int,
    columns: int,
    sparsity: int = 1,
    options: bool = False,
    counted: bool = False,
) -> list[object]:
    """Return floats: (m, d) for a sketch, (d,) for a sum, (d, d) for second moments, one more with both options.

    A row count, the last word, is the constant's square among second moments, and no part of a decoded sum.
    """
    bits = 2 * fraction_bits if kind.startswith("second_moment") else fraction_bits
    values: list[list[object]] = [[float(Fraction(lift(word), 2**bits)) for word in row] for row in words]
    if kind in ("osnap", "osnap_published"):
        return [[lift(word) * (2.0**-bits / math.sqrt(sparsity)) for word in row[:columns]] for row in words]
    if kind == "sum":
        return values[0][:columns]
    place = {pair: k for k, pair in enumerate((i, j) for i in range(columns) for j in range(i, columns))}
    if options:
        lifted = [lift(word) for word in words[0]]
        full = _decoded_with_options(lifted[:-1] if counted else lifted, place, bits, columns)
        if counted:
            full[0] = [lifted[-1] * 2.0**-bits, *full[0][1:]]
        return list(full)
    return [[values[0][place[min(i, j), max(i, j)]] for j in range(columns)] for i in range(columns)]


def _decoded_with_options(
    words: list[int], place: dict[tuple[int, int], int], bits: int, columns: int
) -> list[list[float]]:
    """The constant comes first, its square stands as 0; the noisy trace corrects every noisy diagonal word."""
    excess = words[-1] - sum(words[columns + place[i, i]] for i in range(columns))
    full: list[list[float]] = [[0.0] * (columns + 1) for _ in range(columns + 1)]
    for i in range(columns):
        full[0][i + 1] = full[i + 1][0] = words[i] * 2.0**-bits
        for j in range(columns):
            word = words[columns + place[min(i, j), max(i, j)]]
            full[i + 1][j + 1] = (word + (excess / (columns + 1) if i == j else 0)) * 2.0**-bits
    return full


# --- keys -----------------------------------------------------------------------------------------------------


def ed25519_public(private: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, label: str, *parts: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).sign(framed(label, *parts))


def content_digest(body: bytes) -> str:
    return "sha-256=:" + b64encode(hashlib.sha256(body).digest()).decode() + ":"


def signed_request(private: bytes, method: str, url: str, body: bytes, created: int, nonce: bytes) -> dict[str, str]:
    """Write the headers of a signed request (RFC 9421) as they stand in the standard's examples."""
    digest, keyid = content_digest(body), b64(ed25519_public(private))
    parameters = '("@method" "@target-uri" "content-digest")'
    parameters += f';created={created};nonce="{b64(nonce)}";keyid="{keyid}";tag="lintra/1"'
    base = f'"@method": {method}\n"@target-uri": {url}\n"content-digest": {digest}\n"@signature-params": {parameters}'
    signature = b64encode(Ed25519PrivateKey.from_private_bytes(private).sign(base.encode())).decode()
    return {"content-digest": digest, "signature-input": f"lintra={parameters}", "signature": f"lintra=:{signature}:"}


def x25519_public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def hpke_seal(public: bytes, ephemeral: bytes, info: bytes, plaintext: bytes) -> bytes:
    """RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, with a fixed ephemeral key."""
    encapsulated = x25519_public(ephemeral)
    exchanged = X25519PrivateKey.from_private_bytes(ephemeral).exchange(X25519PublicKey.from_public_bytes(public))
    kem = b"KEM\x00\x20"
    secret = _expand(_extract(b"", kem, b"eae_prk", exchanged), kem, b"shared_secret", encapsulated + public, 32)
    return encapsulated + _Aead(b"HPKE\x00\x20\x00\x01\x00\x01", secret, info).encrypt(plaintext)


def hpke_open_hybrid(private: bytes, info: bytes, sealed: bytes) -> bytes:
    """RFC 9180 with ML-KEM-768 and X25519 joined by SHA3-256, as draft-ietf-hpke-pq has it."""
    mlkem, x25519 = MLKEM768PrivateKey.from_seed_bytes(private[:64]), X25519PrivateKey.from_private_bytes(private[64:])
    first, second = sealed[:1088], sealed[1088:1120]
    exchanged = x25519.exchange(X25519PublicKey.from_public_bytes(second))
    joined = mlkem.decapsulate(first) + exchanged + second + x25519.public_key().public_bytes_raw() + b"\\.//^\\"
    secret = hashlib.sha3_256(joined).digest()
    return _Aead(b"HPKE\x64\x7a\x00\x01\x00\x01", secret, info).decrypt(sealed[1120:])


class _Aead:
    """AES-128-GCM under the key schedule of RFC 9180, Section 5.1, for one message."""

    def __init__(self, suite: bytes, secret: bytes, info: bytes) -> None:
        context = b"\x00" + _extract(b"", suite, b"psk_id_hash", b"") + _extract(b"", suite, b"info_hash", info)
        schedule = _extract(secret, suite, b"secret", b"")
        self.key = AESGCM(_expand(schedule, suite, b"key", context, 16))
        self.nonce = _expand(schedule, suite, b"base_nonce", context, 12)

    def encrypt(self, plaintext: bytes) -> bytes:
        return self.key.encrypt(self.nonce, plaintext, b"")

    def decrypt(self, sealed: bytes) -> bytes:
        return self.key.decrypt(self.nonce, sealed, b"")


def _extract(salt: bytes, suite: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def _expand(secret: bytes, suite: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labelled + b"\x01", "sha256")[:length]


# --- tokens ---------------------------------------------------------------------------------------------------


def token_keys(secret: bytes, identities: list[bytes]) -> list[bytes]:
    return [H("token key", secret, identity) for identity in identities]


def token(keys: list[bytes], task_id: bytes, serial: bytes) -> bytes:
    text = framed("token", task_id, serial)
    return serial + b"".join(hashlib.blake2b(text, digest_size=16, key=key).digest() for key in keys)


def token_pass(token: bytes, server: int) -> bytes:
    return token[:16] + token[16 + 16 * server : 32 + 16 * server]
