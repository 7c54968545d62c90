"""ML-KEM-768 (FIPS 203) in plain integers, so that a seal with known randomness has known bytes.

Only key generation and encapsulation; the library's decapsulation checks them.
"""

from hashlib import sha3_256, sha3_512, shake_128, shake_256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from plain import _Aead, x25519_public

Q, N, K, ETA, DU, DV = 3329, 256, 3, 2, 10, 4
ZETAS = [pow(17, int(f"{place:07b}"[::-1], 2), Q) for place in range(128)]
Poly = list[int]


def ntt(poly: Poly) -> Poly:
    result, place, size = list(poly), 1, 128
    while size >= 2:
        for start in range(0, N, 2 * size):
            for at in range(start, start + size):
                turned = ZETAS[place] * result[at + size] % Q
                result[at + size], result[at] = (result[at] - turned) % Q, (result[at] + turned) % Q
            place += 1
        size //= 2
    return result


def inverse_ntt(poly: Poly) -> Poly:
    result, place, size = list(poly), 127, 2
    while size <= 128:
        for start in range(0, N, 2 * size):
            for at in range(start, start + size):
                before = result[at]
                result[at] = (before + result[at + size]) % Q
                result[at + size] = ZETAS[place] * (result[at + size] - before) % Q
            place -= 1
        size *= 2
    return [value * 3303 % Q for value in result]


def multiplied(first: Poly, second: Poly) -> Poly:
    result = []
    for place in range(128):
        (a0, a1), (b0, b1) = first[2 * place : 2 * place + 2], second[2 * place : 2 * place + 2]
        gamma = pow(17, 2 * int(f"{place:07b}"[::-1], 2) + 1, Q)
        result += [(a0 * b0 + a1 * b1 * gamma) % Q, (a0 * b1 + a1 * b0) % Q]
    return result


def added(*polys: Poly) -> Poly:
    return [sum(values) % Q for values in zip(*polys, strict=True)]


def inner(first: list[Poly], second: list[Poly]) -> Poly:
    return added(*(multiplied(one, other) for one, other in zip(first, second, strict=True)))


def uniform(seed: bytes, column: int, row: int) -> Poly:
    stream, found = shake_128(seed + bytes([column, row])).digest(3 * 512), []
    for at in range(0, len(stream), 3):
        a, b, c = stream[at : at + 3]
        found += [value for value in (a + 256 * (b % 16), b // 16 + 16 * c) if value < Q]
    return found[:N]


def small(seed: bytes, number: int) -> Poly:
    bits = int.from_bytes(shake_256(seed + bytes([number])).digest(64 * ETA), "little")
    chunks = [bits >> 4 * place & 15 for place in range(N)]
    return [((chunk & 1) + (chunk >> 1 & 1) - (chunk >> 2 & 1) - (chunk >> 3)) % Q for chunk in chunks]


def packed(poly: Poly, bits: int) -> bytes:
    return sum(value << bits * place for place, value in enumerate(poly)).to_bytes(N * bits // 8, "little")


def unpacked(data: bytes, bits: int) -> Poly:
    whole = int.from_bytes(data, "little")
    return [whole >> bits * place & (1 << bits) - 1 for place in range(N)]


def compressed(poly: Poly, bits: int) -> Poly:
    return [(2 * (value << bits) + Q) // (2 * Q) % (1 << bits) for value in poly]


def matrix(rho: bytes) -> list[list[Poly]]:
    return [[uniform(rho, column, row) for column in range(K)] for row in range(K)]


def public_key(private: bytes) -> bytes:
    """The public key of the 64 bytes d and z."""
    expanded = sha3_512(private[:32] + bytes([K])).digest()
    rho, sigma = expanded[:32], expanded[32:]
    secret = [ntt(small(sigma, place)) for place in range(K)]
    errors = [ntt(small(sigma, K + place)) for place in range(K)]
    return (
        b"".join(packed(added(inner(row, secret), error), 12) for row, error in zip(matrix(rho), errors, strict=True))
        + rho
    )


def encapsulate(public: bytes, coins: bytes) -> tuple[bytes, bytes]:
    """The shared secret and the ciphertext."""
    expanded = sha3_512(coins + sha3_256(public).digest()).digest()
    secret, seed = expanded[:32], expanded[32:]
    key, rows = [unpacked(public[384 * place : 384 * place + 384], 12) for place in range(K)], matrix(public[384 * K :])
    y = [ntt(small(seed, place)) for place in range(K)]
    columns = [[rows[row][column] for row in range(K)] for column in range(K)]
    u = [added(inverse_ntt(inner(columns[place], y)), small(seed, K + place)) for place in range(K)]
    message = [(Q + 1) // 2 * bit for bit in unpacked(coins, 1)]
    v = added(inverse_ntt(inner(key, y)), small(seed, 2 * K), message)
    return secret, b"".join(packed(compressed(own, DU), DU) for own in u) + packed(compressed(v, DV), DV)


def hpke_seal_hybrid(public: bytes, coins: bytes, ephemeral: bytes, info: bytes, plaintext: bytes) -> bytes:
    """Seal with KEM 0x647a: the secrets of both, the ephemeral and the receiver's X25519 key and a label, hashed."""
    first, ciphertext = encapsulate(public[:1184], coins)
    encapsulated, receiver = x25519_public(ephemeral), public[1184:]
    second = X25519PrivateKey.from_private_bytes(ephemeral).exchange(X25519PublicKey.from_public_bytes(receiver))
    secret = sha3_256(first + second + encapsulated + receiver + bytes.fromhex("5c2e2f2f5e5c")).digest()
    return ciphertext + encapsulated + _Aead(b"HPKE\x64\x7a\x00\x01\x00\x01", secret, info).encrypt(plaintext)
