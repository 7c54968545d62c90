"""Vectors of second rounds after a `range_finder`: reports along a basis, distances, noise, refused tasks, decoding."""

import plain
import plain_directions
from given import Vector, bad, canonical, claim, definition, good, seed, text_rows, texts

# Two directions of six columns that are nearly orthonormal, and three of which two are the same and too long.
EVEN = [[11585, 0], [11585, 0], [0, 9459], [0, -9459], [0, 9459], [0, 0]]
UNEVEN = [[16384, 16384, 1], [-16383, -16383, 0], [0, 0, -23170], [1, 1, 0], [0, 0, 1], [-1, -1, 0]]

AFTER = plain.b64(seed("the first round"))


def written(steps: list[list[int]]) -> str:
    return plain.b64(b"".join(value.to_bytes(2, "little", signed=True) for line in steps for value in line))


PLAIN: dict[str, object] = {
    "kind": "second_moment", "row_bound": "1", "fraction_bits": 6, "sigma": 30000, "intercept": "0", "trace": False,
    "basis": written(EVEN), "after": AFTER,
}  # fmt: skip
FULL: dict[str, object] = PLAIN | {
    "intercept": "0.52", "trace": True, "sigma": 50000, "clip_count_weight": "0.2", "targets": [5, 1],
}  # fmt: skip
LONG: dict[str, object] = FULL | {"basis": written(UNEVEN), "targets": [0]}

KINDS = (("plain", PLAIN), ("all fields", FULL), ("directions that are too long", LONG))

ROWS = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.25, -0.5, 0.125, 0.0625, -0.375, 0.03],
    [3.0, -4.0, 0.5, 12.0, -1.0, 2.0],
    # Within the bound, but not together with its targets.
    [0.6, 0.7, 0.1, -0.1, 0.1, 0.3],
    [1e17, -1e17, 1.0, 1e17, 0.0, 1e9],
    [-0.0078125, 0.0234375, 0.3, 0.3, 0.0, -0.9],
]
COLUMNS: list[dict[str, object]] = [
    {"name": name, "lower": "-1", "upper": "1", "center": "0", "scale": "1", "unit": ""} for name in "abcdef"
]


def directions() -> list[Vector]:
    """Reports, distances and noise; tasks; and what the analyzer reads."""
    result = [
        good(f"{name}: row {number}", "missing_rows", texts(plain_directions.report(mechanism, row)),
             mechanism=mechanism, row=[str(value) for value in row], outside=False)
        for name, mechanism in KINDS
        for number, row in enumerate(ROWS)
    ]  # fmt: skip
    for name, mechanism in KINDS:
        for neighbours in ("replace-one", "zero-out"):
            square = plain_directions.squared_distance(mechanism, neighbours)
            result.append(
                good(f"squared distance, {name}, {neighbours}", "squared_distance",
                     [str(square.numerator), str(square.denominator)], mechanism=mechanism, columns=6,
                     neighbours=neighbours)
            )  # fmt: skip
    return [*result, *_tasks(), *_decoded()]


def _tasks() -> list[Vector]:
    """Six columns, at least 1000 clients of whom 10 are corrupt."""
    promise = claim(min_clients=1000, max_corrupt_clients=10)
    least = {
        name: mechanism | {"sigma": plain_directions.sigma(mechanism, 1.0, 1e-6, 1000, 10)} for name, mechanism in KINDS
    }

    def text(mechanism: dict[str, object], **changes: object) -> str:
        fields: dict[str, object] = {"columns": COLUMNS, "mechanism": mechanism, "claim": promise, "max_clients": 2000}
        return canonical(definition(**{"max_missing": "0.25", **fields, **changes}))

    result = [
        good(f"a second round, {name}", "check_task", plain.b64(plain.H("task", text(mechanism).encode())),
             text=text(mechanism))
        for name, mechanism in least.items()
    ]  # fmt: skip
    full = least["all fields"]
    alone = {name: value for name, value in full.items() if name not in ("basis", "after", "targets")}
    too_long = [[23171, 0]] + [[0, 0]] * 5
    refused: list[tuple[str, str, dict[str, object]]] = [
        ("a little less noise", "false_claim", full | {"sigma": int(str(full["sigma"])) - 1}),
        ("no first round", "invalid_task", {name: value for name, value in full.items() if name != "after"}),
        ("a first round that is no identifier", "invalid_message", full | {"after": AFTER[:-1]}),
        ("a first round but no basis", "invalid_task", alone | {"after": AFTER}),
        ("targets but no basis", "invalid_task", alone | {"targets": [1]}),
        ("an empty basis", "invalid_message", full | {"basis": ""}),
        ("a basis that is no base64url", "invalid_task", full | {"basis": "=" + str(full["basis"])[1:]}),
        ("a basis that lacks a number", "invalid_task", full | {"basis": plain.b64(bytes(22))}),
        ("a basis of half a direction", "invalid_task", full | {"basis": plain.b64(bytes(6))}),
        ("257 directions", "invalid_task", full | {"basis": written([[1] * 257] * 6)}),
        ("a direction whose square is above 2^29", "invalid_task", full | {"basis": written(too_long)}),
        ("a target that is no column", "invalid_task", full | {"targets": [6]}),
        ("a target twice", "invalid_task", full | {"targets": [1, 1]}),
        ("a target below zero", "invalid_message", full | {"targets": [-1]}),
        ("nine targets", "invalid_message", full | {"targets": [0, 1, 2, 3, 4, 5, 6, 7, 8]}),
        ("no room for squares", "invalid_task", full | {"fraction_bits": 29, "sigma": 2**29 - 1}),
    ]
    result += [bad(f"a second round with {name}", "check_task", token, text=text(mechanism))
               for name, token, mechanism in refused]  # fmt: skip
    # The longest that a direction may be: 2^14.5, rounded down.
    longest = PLAIN | {"basis": written([[23170, 0], *[[0, 0]] * 5]), "sigma": least["plain"]["sigma"]}
    return [*result, good("a second round with the longest direction", "check_task",
                          plain.b64(plain.H("task", text(longest).encode())), text=text(longest))]  # fmt: skip


def _decoded() -> list[Vector]:
    size = len(plain_directions.report(FULL, ROWS[0]))
    words = plain.bytes_words(plain.keystream(seed("directions"), 8 * size))
    small = [plain.to_words([word % 2**40 - 2**39 for word in words])]
    decoded = plain.decode("second_moment", [small[0][:-1]], 6, 4, options=True)
    return [good("a second round: decoding", "decode", decoded, sketch=text_rows(small), columns=6, mechanism=FULL)]
