"""Vectors of `range_finder`: signs, projections, reports, bounds, noise, refused tasks, what the analyzer reads."""

import plain
import plain_range
from given import Vector, bad, canonical, claim, definition, good, seed, text_rows, texts

SEED = bytes(range(32))

PLAIN: dict[str, object] = {
    "kind": "range_finder", "row_bound": "1", "fraction_bits": 6, "sigma": 30000, "rank": 2,
    "omega_seed": plain.b64(SEED), "projected_bound": "1.2", "intercept": "0", "targets": [], "trace": False,
}  # fmt: skip
FULL: dict[str, object] = PLAIN | {
    "intercept": "0.51", "trace": True, "clip_count_weight": "0.2", "sigma": 50000, "rank": 3,
    "targets": [{"column": 1, "bound": "0.25", "bits": 2}, {"column": 4, "bound": "3", "bits": 0}],
}  # fmt: skip
NARROW: dict[str, object] = FULL | {"projected_bound": "0.3", "trace": False, "targets": []}

ROWS = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.25, -0.5, 0.125, 0.0625, -0.375, 0.03],
    # A row beyond the bound, one whose projection alone is, and a huge one.
    [3.0, -4.0, 0.5, 12.0, -1.0, 2.0],
    [0.4, 0.4, 0.4, -0.4, 0.4, 0.4],
    [1e17, -1e17, 1.0, 1e17, 0.0, 1e9],
    [-0.0078125, 0.0234375, 0.3, 0.3, 0.0, -0.9],
]
COLUMNS: list[dict[str, object]] = [
    {"name": name, "lower": "-1", "upper": "1", "center": "0", "scale": "1", "unit": ""} for name in "abcdef"
]


def range_finder() -> list[Vector]:
    return [*_parts(), *_noise(), *_reports(), *_tasks()]


def _parts() -> list[Vector]:
    """Signs; a row of four with three projections (V2); rows that share a projection (V3); every field at once (V8)."""
    omega = plain_range.signs(SEED, 4, 3)
    assert omega == [[-1, -1, 1], [1, 1, 1], [1, 1, -1], [-1, 1, -1]]
    row = [5, -3, 2, 1]
    found = plain_range.projection(row, omega, 1, 30)
    assert found == [-4, -2, 0]
    words = plain_range.products(row, [2, 5, *found], trace=True)
    assert (words[:5], words[-1]) == ([10, 25, -20, -10, 0], 39)
    result = [
        good("signs", "omega", omega, seed=SEED.hex(), columns=4, rank=3),
        good("many signs", "omega", plain_range.signs(seed("omega"), 21, 9), seed=seed("omega").hex(), columns=21,
             rank=9),
        good("halvings", "halvings", [plain_range.halvings(r) for r in range(1, 257)], ranks=list(range(1, 257))),
        good("a projection", "range_projection", texts(found), row=texts(row), signs=omega, halvings=1,
             squared_bound="30"),
        good("products", "range_products", texts(plain_range.products(row, found)), row=texts(row),
             factors=texts(found)),
        good("products with a constant, a target and the squared norm", "range_products", texts(words[:-1]),
             row=texts(row), factors=texts([2, 5, *found])),
    ]  # fmt: skip
    for number, two in enumerate(([4, -2], [-2, 4])):
        both = plain_range.projection(two, [[1], [1]], 0, 4)
        assert both == [2]
        result.append(
            good(f"rows that share a projection, {number}", "range_projection", texts(both), row=texts(two),
                 signs=[[1], [1]], halvings=0, squared_bound="4")
        )  # fmt: skip
    return result


def _noise() -> list[Vector]:
    """Squared distances, and the noise that a promise of epsilon 1 at 1e-6 needs, for two pairs of bounds (V4)."""
    result = [
        good(f"squared distance, {name}, {neighbours}", "squared_distance",
             [str(plain_range.squared_distance(mechanism, neighbours)), "1"], mechanism=mechanism, columns=6,
             neighbours=neighbours)
        for name, mechanism in (("plain", PLAIN), ("all fields", FULL), ("a narrow projection", NARROW))
        for neighbours in ("replace-one", "zero-out")
    ]  # fmt: skip
    # With r = 1 and f = 14 these bounds of the projection make R_q = 421580632 and 387514028 beside R_x = 2^28.
    for bound, square, clients, corrupt, sigma in (
        ("1.2532", 421580632, 10000, 0, 28423920),
        ("1.2015", 387514028, 100000, 1000, 8661035),
    ):
        wide: dict[str, object] = PLAIN | {"fraction_bits": 14, "rank": 1, "projected_bound": bound}
        assert (plain_range.row_squared(wide), plain_range.factor_squared(wide)) == (2**28, square)
        assert plain_range.sigma(wide, 1.0, 1e-6, clients, corrupt, "replace-one") == sigma
        result.append(
            good(f"noise for {clients} clients", "smallest_sigma", sigma, mechanism=wide, columns=6,
                 claim=claim(min_clients=clients, max_corrupt_clients=corrupt))
        )  # fmt: skip
    return result


def _reports() -> list[Vector]:
    return [
        good(f"{name}: row {number}", "missing_rows", texts(plain_range.report(mechanism, row)), mechanism=mechanism,
             row=[str(value) for value in row], outside=False)
        for name, mechanism in (("plain", PLAIN), ("all fields", FULL), ("a narrow projection", NARROW))
        for number, row in enumerate(ROWS)
    ]  # fmt: skip


def _tasks() -> list[Vector]:
    """Six columns, at least 1000 clients of whom 10 are corrupt."""
    promise = claim(min_clients=1000, max_corrupt_clients=10)
    least = {
        name: mechanism | {"sigma": plain_range.sigma(mechanism, 1.0, 1e-6, 1000, 10, "replace-one")}
        for name, mechanism in (("plain", PLAIN), ("all fields", FULL))
    }

    def text(mechanism: dict[str, object], **changes: object) -> str:
        fields: dict[str, object] = {"columns": COLUMNS, "mechanism": mechanism, "claim": promise, "max_clients": 2000}
        return canonical(definition(**{"max_missing": "0.25", **fields, **changes}))

    result = [
        good(f"a range finder, {name}", "check_task", plain.b64(plain.H("task", text(mechanism).encode())),
             text=text(mechanism))
        for name, mechanism in least.items()
    ]  # fmt: skip
    full = least["all fields"]
    null = claim(min_clients=1000, neighbours="zero-out")
    refused: list[tuple[str, str, dict[str, object], dict[str, object]]] = [
        ("a little less noise", "false_claim", {"sigma": int(str(full["sigma"])) - 1}, {}),
        ("a rank above half of the columns", "invalid_task", {"rank": 4}, {}),
        ("a rank of 0", "invalid_message", {"rank": 0}, {}),
        ("a rank of 257", "invalid_message", {"rank": 257}, {}),
        ("a seed of 31 bytes", "invalid_task", {"omega_seed": plain.b64(bytes(31))}, {}),
        ("no seed", "invalid_message", {"omega_seed": ""}, {}),
        ("a projection shrunk to nothing", "invalid_task", {"projected_bound": "0"}, {}),
        ("a projection below one step", "invalid_task", {"projected_bound": "0.000001"}, {}),
        ("a projection beyond 30 bits", "invalid_task", {"projected_bound": "900000000", "sigma": 2**28}, {}),
        ("a negative intercept", "invalid_task", {"intercept": "-1"}, {}),
        ("an intercept below one step", "invalid_task", {"intercept": "0.01"}, {}),
        ("a trace against the null row", "invalid_task", {}, {"claim": null}),
        ("a trace that is not free", "invalid_task",
         {"projected_bound": "0.2", "intercept": "0", "targets": []}, {}),
        ("a target that is no column", "invalid_task", {"targets": [{"column": 6, "bound": "1", "bits": 0}]}, {}),
        ("a target below zero", "invalid_message", {"targets": [{"column": -1, "bound": "1", "bits": 0}]}, {}),
        ("a target twice", "invalid_task", {"targets": [{"column": 1, "bound": "1", "bits": 0}] * 2}, {}),
        ("a target with a bound of 0", "invalid_task", {"targets": [{"column": 1, "bound": "0", "bits": 0}]}, {}),
        ("a target of nine bits", "invalid_message", {"targets": [{"column": 1, "bound": "1", "bits": 9}]}, {}),
        ("nine targets", "invalid_message",
         {"targets": [{"column": c, "bound": "1", "bits": 0} for c in range(6)] * 2}, {}),
        ("a target without its bits", "invalid_message", {"targets": [{"column": 1, "bound": "1"}]}, {}),
        ("no room in the ring", "invalid_task", {"fraction_bits": 29, "sigma": 2**29 - 1}, {}),
    ]  # fmt: skip
    for name, token, change, fields in refused:
        result.append(bad(f"a range finder with {name}", "check_task", token, text=text(full | change, **fields)))
    return result


def range_sketches() -> list[Vector]:
    """The sum of five reports mod 2^64, and what the analyzer reads from one."""
    size = len(plain_range.report(FULL, ROWS[0]))
    stream = plain.bytes_words(plain.keystream(seed("range finder"), 8 * 5 * size))
    shares = [stream[start : start + size] for start in range(0, len(stream), size)]
    sums = plain.sketch(1, [[(0, 1)]] * 5, shares)
    small = [plain.to_words([word % 2**40 - 2**39 for word in sums[0]])]
    return [
        good("range finder: a sketch", "sketch", text_rows(sums), shares=text_rows(shares), seed=seed("matrix").hex(),
             mechanism=FULL),
        good("range finder: decoding", "decode", plain_range.decode(FULL, small[0]), sketch=text_rows(small),
             columns=6, mechanism=FULL),
    ]  # fmt: skip
