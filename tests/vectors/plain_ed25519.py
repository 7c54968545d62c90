"""Ed25519 in plain integers: which signatures hold, and signatures that no honest signer makes."""

from hashlib import sha512

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def add(first: Point, second: Point) -> Point:
    (x1, y1), (x2, y2) = first, second
    both = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + both, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - both, -1, P) % P


def times(number: int, point: Point) -> Point:
    result = NEUTRAL
    while number:
        result, point, number = add(result, point) if number & 1 else result, add(point, point), number >> 1
    return result


def roots_of_x(y: int) -> list[int]:
    """The two x of a y, or none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    root = root if root * root % P == square else root * pow(2, (P - 1) // 4, P) % P
    return sorted({root, -root % P}, key=lambda x: x % 2) if root * root % P == square else []


BASE: Point = (roots_of_x(4 * pow(5, -1, P) % P)[0], 4 * pow(5, -1, P) % P)


def encoded(point: Point, beyond: int = 0) -> bytes:
    """Write a point; `beyond` P makes a second spelling of a small y."""
    return (point[1] + beyond | (point[0] & 1) << 255).to_bytes(32, "little")


def small_points() -> list[Point]:
    """The eight points whose order divides 8: multiples of one of order 8."""
    y = next(y for y in range(2, 100) if roots_of_x(y))
    while len({times(k, (point := times(ORDER, (roots_of_x(y)[0], y)))) for k in range(8)}) < 8:
        y = next(other for other in range(y + 1, 1000) if roots_of_x(other))
    return [times(k, point) for k in range(8)]


def secret_scalar(private: bytes) -> int:
    digest = int.from_bytes(sha512(private).digest()[:32], "little")
    return digest & (1 << 254) - 8 | 1 << 254


def challenge(nonce_point: bytes, key: bytes, data: bytes) -> int:
    return int.from_bytes(sha512(nonce_point + key + data).digest(), "little") % ORDER


def signature(scalar: int, nonce: int, key: bytes, data: bytes) -> bytes:
    """Sign with a chosen nonce, for a key that may be another point than the scalar's own."""
    first = encoded(times(nonce, BASE))
    return first + ((nonce + challenge(first, key, data) * scalar) % ORDER).to_bytes(32, "little")
