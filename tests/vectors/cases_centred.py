"""Vectors of `ron_gauss_centred`: what a row becomes, its noise and its promise, tasks and their release."""

import plain
import plain_centred
from cases_joint import COLUMNS, ROWS
from given import Vector, bad, definition, good, seed, task_id, text_rows, texts
from plain import b64, canonical

CENTRED: dict[str, object] = {
    "kind": "ron_gauss_centred", "row_bound": "0.5", "fraction_bits": 4, "sigma": 200, "dimension": 2, "frame_seed": "",
    "frame_digest": "", "label": 2, "levels": [0, 0, 3], "covariance": "pooled", "after": b64(seed("first round")),
    "centers": [[0, 0], [16384, -8193], [-1023, 1024]],
}  # fmt: skip
MECHANISMS: dict[str, dict[str, object]] = {
    "classes": CENTRED,
    "classes, covariances by class": CENTRED | {"covariance": "per_class"},
    "the finest grid": CENTRED | {"fraction_bits": 15},
    "a numeric label": CENTRED | {"label": 1, "dimension": 4, "centers": [[5000, 32768, -32768, 1025, -20001]]},
    "classes, clip count": CENTRED | {"clip_count_weight": "0.3", "sigma": 300},
    "no label": CENTRED | {"label": -1, "dimension": 5, "centers": [[1, -1, 1024, -1024, 1023]]},
}


def centred() -> list[Vector]:
    result = []
    for name, mechanism in MECHANISMS.items():
        for number, row in enumerate(ROWS):
            vector = plain_centred.centred_vector(mechanism, row)
            given = {"mechanism": mechanism, "row": [None if x is None else repr(float(x)) for x in row]}
            result.append(good(f"{name}: row {number}", "joint_vector", texts(vector), **given))
            if "clip_count_weight" in mechanism:
                for outside in (False, True):
                    counted = str(plain_centred.clip_count(mechanism, row, outside))
                    moved = ", moved by a column's bound" * outside
                    result.append(good(f"{name}: row {number} counts{moved}", "clip_count", counted, outside=outside,
                                       **given))  # fmt: skip
        deviations = texts(plain_centred.sigmas(mechanism))
        result.append(good(f"{name}: noise", "sigmas", deviations, mechanism=mechanism, columns=3))
        for neighbours in ("replace-one", "zero-out"):
            square = plain_centred.squared_distance(mechanism, replace=neighbours == "replace-one")
            result.append(
                good(f"{name}: {neighbours}", "squared_distance", [str(square.numerator), str(square.denominator)],
                     mechanism=mechanism, columns=3, neighbours=neighbours)
            )  # fmt: skip
    return result + tasks()


def tasks() -> list[Vector]:
    """One task, and what is wrong with others."""
    task = definition(columns=COLUMNS, mechanism=CENTRED)
    counting = definition(columns=COLUMNS, mechanism=MECHANISMS["classes, clip count"])
    result = [
        good(f"centred: {name}", "check_task", b64(task_id(one)), text=canonical(one))
        for name, one in (("a task", task), ("a task with a clip counter", counting))
    ]
    refused: list[tuple[str, str, dict[str, object]]] = [
        ("too little noise", "false_claim", {"sigma": 100}),
        ("too few centers", "invalid_message", {"centers": [[0, 0], [0, 0]]}),
        ("a center that is too short", "invalid_message", {"centers": [[0, 0], [0, 0], [0]]}),
        ("a center that no row can be near", "invalid_message", {"centers": [[0, 0], [0, 0], [0, 2**25 + 1]]}),
        ("a label beyond its bounds", "invalid_message",
         {"label": 1, "dimension": 4, "centers": [[0, 0, 0, 0, 32769]]}),
        ("a center that is no integer", "invalid_message", {"centers": [[0, 0], [0, 0], [0, "1"]]}),
        ("no first round", "invalid_message", {"after": ""}),
        ("a first round of stray bits", "invalid_task", {"after": "A" * 42 + "B"}),
        ("levels that are not those of the column", "invalid_message", {"levels": [0, 0, 2]}),
        ("a grid finer than features", "invalid_task", {"fraction_bits": 16}),
        ("a bound below one step", "invalid_task", {"row_bound": "0.01"}),
        ("fewer numbers than features and no frame", "invalid_task",
         {"dimension": 1, "centers": [[0], [0], [0]]}),
        ("covariances by class without classes", "invalid_task",
         {"label": -1, "dimension": 5, "centers": [[0, 0, 0, 0, 0]], "covariance": "per_class"}),
        ("histograms", "invalid_message", {"bins": [0, 0, 0]}),
    ]  # fmt: skip
    for name, token, change in refused:
        text = canonical(definition(columns=COLUMNS, mechanism=CENTRED | change))
        result.append(bad(f"a second task with {name}", "check_task", token, text=text))
    return result


def centred_sketches() -> list[Vector]:
    """The sum of five reports mod 2^64, and what the analyzer reads from one; the same with a clip counter."""
    return _sums("ron_gauss_centred", CENTRED) + _sums(
        "ron_gauss_centred, clip count", MECHANISMS["classes, clip count"]
    )


def _sums(name: str, mechanism: dict[str, object]) -> list[Vector]:
    size = len(plain_centred.sigmas(mechanism))
    stream = plain.bytes_words(plain.keystream(seed("ron_gauss_centred"), 8 * 5 * size))
    shares = [stream[start : start + size] for start in range(0, len(stream), size)]
    sums = plain.sketch(1, [[(0, 1)]] * 5, shares)
    small = [plain.to_words([word % 2**40 - 2**39 for word in sums[0]])]
    return [
        good(f"{name}: a sketch", "sketch", text_rows(sums), shares=text_rows(shares),
             seed=seed("matrix").hex(), mechanism=mechanism),
        good(f"{name}: decoding", "decode", plain_centred.decode(mechanism, small[0]), sketch=text_rows(small),
             columns=3, mechanism=mechanism),
    ]  # fmt: skip
