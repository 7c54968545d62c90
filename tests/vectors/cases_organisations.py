"""Vectors of contributions: what an organisation sends, what a person can move, which tasks are refused."""

import plain
import plain_organisations
from cases_centred import CENTRED
from cases_histogram import CELLS, COLUMNS
from cases_joint import CLASSES, ROWS
from given import Vector, bad, canonical, claim, definition, good, seed, texts

Document = dict[str, object]

ONE: Document = {
    "kind": "organisations", "rows_per_person": 1, "organisations_per_person": 1, "max_rows": 1000, "count": "exact"
}  # fmt: skip
TWO, THREE = ONE | {"rows_per_person": 2}, ONE | {"rows_per_person": 3}
NOISY = {"count": "noisy"}
SUM: Document = {"kind": "sum", "row_bound": "5", "fraction_bits": 0, "sigma": 100}
PRODUCTS: Document = {
    "kind": "second_moment", "row_bound": "5", "fraction_bits": 0, "sigma": 1000, "intercept": "2", "trace": True
}  # fmt: skip
FINE: Document = PRODUCTS | {"row_bound": "1", "fraction_bits": 12, "intercept": "0", "trace": False, "sigma": 70878351}
WIDE: Document = {"kind": "sum", "row_bound": "1", "fraction_bits": 24, "sigma": 141756701}
RANGE: Document = {
    "kind": "range_finder", "row_bound": "5", "fraction_bits": 0, "sigma": 1000, "rank": 1,
    "omega_seed": plain.b64(bytes(range(32))), "projected_bound": "6", "intercept": "2",
    "targets": [{"column": 1, "bound": "3", "bits": 0}], "trace": True,
}  # fmt: skip
AGES: Document = CELLS | {"edges": [["0", "50", "100"]], "levels": [0], "sigma": 12236}


def organisations() -> list[Vector]:
    return [*_contributions(), *_distances(), *_noise(), *_tasks()]


def _contributions() -> list[Vector]:
    rows: list[list[float | None]] = [[3.0, 4.0], [-5.0, 0.0], [1.0, 2.0]]
    long: list[list[float | None]] = [[3.0, 4.0], [40.0, -30.0], [6.0, 8.0], [0.0, 1.0]]
    holes: list[list[float | None]] = [[3.0, None], [1.0, 2.0], [None, None], [0.0, 5.0]]
    cells: list[list[float | None]] = [[20.0], [70.0], [None], [100.0], [50.0]]
    fifty = TWO | {"person_bound": "7.0710678118654755"}
    given: list[tuple[str, Document, Document, list[list[float | None]], list[int]]] = [
        ("three rows of one person, with options", PRODUCTS, THREE, rows, [0, 0, 0]),
        ("three persons", PRODUCTS, ONE, rows, [0, 1, 2]),
        ("three rows, counted with noise", PRODUCTS, THREE | NOISY, rows, [0, 0, 0]),
        ("rows of a person apart from each other", SUM, fifty, long, [0, 1, 0, 1]),
        ("products of rows apart from each other", PRODUCTS | {"trace": False}, fifty | NOISY, long, [0, 1, 0, 1]),
        ("a person shrunk as a whole", SUM, THREE | {"person_bound": "5"}, long, [0, 1, 0, 0]),
        ("a sum counted with noise", SUM, TWO | NOISY, long, [1, 0, 1, 0]),
        ("numbers missing under an exact count", PRODUCTS, TWO, holes, [0, 0, 1, 1]),
        ("numbers missing under a noisy count", PRODUCTS, TWO | NOISY, holes, [0, 0, 1, 1]),
        ("a sum of rows with numbers missing", SUM, TWO | NOISY, holes, [0, 1, 0, 1]),
        ("no row that counts", SUM, TWO | NOISY, [[None, 1.0]], [0]),
        ("products with a projection", RANGE, THREE, rows, [0, 0, 0]),
        ("products with a projection, counted with noise", RANGE, TWO | NOISY, long, [1, 0, 1, 0]),
        ("products with a projection of rows with numbers missing", RANGE, TWO | NOISY, holes, [0, 1, 0, 1]),
        ("cells", AGES, TWO, cells, [0, 0, 1, 1, 2]),
        ("cells without a count", AGES, TWO | NOISY, cells, [0, 0, 1, 1, 2]),
        ("joint sums", CLASSES, TWO, ROWS[:6], [0, 0, 1, 1, 2, 2]),
        ("joint sums without a count", CLASSES, TWO | NOISY, ROWS, [0, 0, 1, 1, 2, 2, 3, 3]),
        ("joint sums by class", CLASSES | {"covariance": "per_class"}, TWO, ROWS, [0, 1, 2, 3, 0, 1, 2, 3]),
        ("products about centres", CENTRED, TWO, ROWS, [0, 1, 2, 3, 0, 1, 2, 3]),
    ]  # fmt: skip
    return [
        good("two rows of a person in one vector", "quantise", texts(plain.quantise([3.0, 4.0, 6.0, 8.0], 50)),
             row=["3.0", "4.0", "6.0", "8.0"], squared_bound="50"),
        *(
            good(name, "contribution", texts(plain_organisations.contribution(mechanism, who, some, persons)),
                 mechanism=mechanism, contributors=who, persons=persons,
                 rows=[[None if x is None else repr(x) for x in row] for row in some])
            for name, mechanism, who, some, persons in given
        ),
        bad("more rows of a person than allowed", "contribution", "invalid_row", mechanism=SUM, contributors=ONE,
            persons=[0, 0], rows=[["1.0", "2.0"], ["1.0", "2.0"]]),
        bad("more rows than allowed", "contribution", "invalid_row", mechanism=SUM,
            contributors=ONE | {"max_rows": 1}, persons=[0, 1], rows=[["1.0", "2.0"], ["1.0", "2.0"]]),
    ]  # fmt: skip


def _distances() -> list[Vector]:
    plainer = PRODUCTS | {"intercept": "3", "trace": False}
    asked: list[tuple[str, Document, Document, str]] = [
        ("one row replaced", plainer, ONE, "replace-one"),
        ("two rows replaced", plainer, TWO | NOISY, "replace-one"),
        ("two rows of one row's length replaced", plainer, TWO | NOISY | {"person_bound": "5"}, "replace-one"),
        ("two rows to null", plainer, TWO, "zero-out"),
        ("two rows to null under a noisy count", plainer, TWO | NOISY, "zero-out"),
        ("two rows removed", plainer, TWO | NOISY, "add-remove"),
        ("two rows removed, with the trace", plainer | {"trace": True}, TWO | NOISY, "add-remove"),
        ("a projected row replaced", RANGE, ONE, "replace-one"),
        ("two projected rows replaced", RANGE, TWO | NOISY, "replace-one"),
        ("two projected rows removed", RANGE | {"trace": False}, TWO | NOISY, "add-remove"),
        ("a small projection beside a large count", RANGE | {"intercept": "9"}, TWO | NOISY, "replace-one"),
        ("an intercept above the bound", plainer | {"intercept": "7"}, ONE, "replace-one"),
        ("an intercept above the bound, counted", plainer | {"intercept": "7"}, ONE | NOISY, "replace-one"),
        ("three organisations", plainer, TWO | NOISY | {"organisations_per_person": 3}, "replace-one"),
        ("a sum, replaced", SUM, TWO | NOISY, "replace-one"),
        ("a sum, to null", SUM, TWO, "zero-out"),
        ("a sum, removed", SUM, TWO | NOISY, "add-remove"),
        ("cells, replaced", CELLS, TWO | NOISY, "replace-one"),
        ("cells, removed", CELLS, TWO | NOISY, "add-remove"),
        ("products about centres, replaced", CENTRED, ONE, "replace-one"),
        ("products about centres, to null", CENTRED, TWO | {"organisations_per_person": 3}, "zero-out"),
    ]
    result = []
    for name, mechanism, who, neighbours in asked:
        square = plain_organisations.squared_distance(mechanism, who, neighbours)
        result.append(
            good(f"{name}: distance", "squared_distance", texts([square.numerator, square.denominator]),
                 mechanism=mechanism, contributors=who, columns=2, neighbours=neighbours)
        )  # fmt: skip
    return result


def _noise() -> list[Vector]:
    half = FINE | {"intercept": "0.5"}
    four = ONE | {"rows_per_person": 4, "person_bound": "1", "count": "noisy"}
    asked: list[tuple[str, Document, Document, int, int, str]] = [
        ("3 honest", FINE, ONE, 3, 0, "replace-one"), ("1 of 3", FINE, ONE, 3, 2, "replace-one"),
        ("4 of 5", FINE, ONE, 5, 1, "replace-one"), ("19 of 20", FINE, ONE, 20, 1, "replace-one"),
        ("1 of 3, two rows", FINE, TWO, 3, 2, "replace-one"), ("an intercept", half, ONE, 5, 4, "replace-one"),
        ("an intercept, removed", half, ONE | NOISY, 5, 4, "add-remove"),
        ("two organisations", FINE, ONE | {"organisations_per_person": 2}, 5, 1, "replace-one"),
        ("a sum", WIDE, ONE, 5, 4, "replace-one"), ("a sum, four rows", WIDE, four, 5, 4, "replace-one"),
        ("cells", AGES, ONE, 5, 1, "replace-one"), ("cells, removed", AGES, ONE | NOISY, 5, 1, "add-remove"),
        ("cells of two columns", AGES | {"edges": [["0", "50", "100"]] * 2, "levels": [0, 0]}, ONE, 20, 1,
         "replace-one"),
    ]  # fmt: skip
    return [
        good(f"{name}: sigma", "smallest_sigma",
             plain_organisations.smallest_sigma(mechanism, who, neighbours, 1.0, 1e-6, least - corrupt),
             mechanism=mechanism, contributors=who, columns=2 if name.endswith("two columns") else 1,
             claim=claim(min_clients=least, max_corrupt_clients=corrupt, neighbours=neighbours))
        for name, mechanism, who, least, corrupt, neighbours in asked
    ]  # fmt: skip


def _tasks() -> list[Vector]:
    """Products of two columns, at least 3 organisations of which one is honest: T 2^24, 70878351 is the least sigma."""
    promise = claim(min_clients=3, max_corrupt_clients=2)
    tokens = {"client_auth": "token", "token_keys": [plain.b64(seed(f"token key {server}")) for server in range(3)]}
    one_of = ONE | {"max_rows": 10**6}
    usual: Document = {
        "mechanism": FINE,
        "contributors": one_of,
        "claim": promise,
        "max_clients": 5,
        "max_missing": "0.4",
    }
    counted = FINE | {"intercept": "0.5", "sigma": 88597938}
    ages = {"columns": [COLUMNS[0]], "claim": claim(min_clients=5, max_corrupt_clients=1), **tokens}
    kept: list[tuple[str, Document]] = [
        ("products", {}),
        ("rows counted with noise", {"mechanism": counted, "contributors": one_of | NOISY}),
        ("persons added", {"mechanism": counted | {"sigma": 62648203}, "contributors": one_of | NOISY,
                           "claim": promise | {"neighbours": "add-remove"}}),
        ("null rows and two rows of a person", {"mechanism": FINE | {"sigma": 100238725}, "contributors": one_of
         | {"rows_per_person": 2}, "claim": promise | {"neighbours": "zero-out"}}),
        ("few corrupt and tokens", {"mechanism": FINE | {"sigma": 40921635}, **tokens,
                                    "claim": promise | {"max_corrupt_clients": 0}}),
        ("cells", {"mechanism": AGES, **ages}),
    ]  # fmt: skip
    result = []
    for name, change in kept:
        text = canonical(definition(**(usual | change)))
        result.append(good(f"contributors: {name}", "check_task", plain.b64(plain.H("task", text.encode())), text=text))
    for name, token, change in _refused(one_of, promise, counted, ages):
        text = canonical(definition(**(usual | change)))
        result.append(bad(f"contributors: {name}", "check_task", token, text=text))
    single = canonical(definition(claim=claim(neighbours="add-remove")))
    result.append(bad("add-remove without contributors", "check_task", "invalid_task", text=single))
    return result


def _refused(one_of: Document, promise: Document, counted: Document, ages: Document) -> list[tuple[str, str, Document]]:
    added: Document = {"contributors": one_of | NOISY, "claim": promise | {"neighbours": "add-remove"}}
    sketch = {"kind": "osnap", "row_bound": "1", "fraction_bits": 4, "sigma": 10**6, "rows": 1, "sparsity": 1,
              "leverage": "0"}  # fmt: skip
    return [
        ("a little less noise", "false_claim", {"mechanism": FINE | {"sigma": 70878350}}),
        ("noise for all three", "false_claim", {"mechanism": FINE | {"sigma": 40921635}}),
        ("two organisations a person", "false_claim", {"contributors": one_of | {"organisations_per_person": 2}}),
        ("noise of null rows for persons added", "false_claim", {"mechanism": counted | {"sigma": 62648202}, **added}),
        ("persons added and an exact count", "invalid_task", added | {"contributors": one_of}),
        ("two rows replaced and an exact count", "invalid_task", {"contributors": one_of | {"rows_per_person": 2}}),
        ("a noisy count without an intercept", "invalid_task", {"contributors": one_of | NOISY}),
        ("a trace and null rows", "invalid_task", {"mechanism": FINE | {"trace": True},
                                                   "claim": promise | {"neighbours": "zero-out"}}),
        ("a trace and persons added", "invalid_task", added | {"mechanism": counted | {"trace": True}}),
        ("a person's bound above all rows", "invalid_task", {"contributors": one_of | {"person_bound": "1.0001"}}),
        ("a person's bound of cells", "invalid_task", {"mechanism": AGES, **ages,
                                                       "contributors": one_of | {"person_bound": "1"}}),
        ("a person's bound of nothing", "invalid_message", {"contributors": one_of | {"person_bound": "0"}}),
        ("a clip counter", "invalid_task", {"mechanism": FINE | {"clip_count_weight": "0.2"}}),
        ("two counts", "invalid_task", {"mechanism": counted | NOISY, "contributors": one_of | NOISY}),
        ("a sketch", "invalid_task", {"mechanism": sketch}),
        ("few corrupt and no tokens", "invalid_task", {"claim": promise | {"max_corrupt_clients": 1}}),
        ("rows that may overflow", "invalid_task", {"contributors": one_of | {"max_rows": 2**38}}),
        ("more organisations a person than there are", "invalid_task",
         {"contributors": one_of | {"organisations_per_person": 6}}),
        ("no rows at all", "invalid_message", {"contributors": one_of | {"max_rows": 0}}),
        ("no rows of a person", "invalid_message", {"contributors": one_of | {"rows_per_person": 0}}),
        ("another kind of contributors", "invalid_message", {"contributors": one_of | {"kind": "households"}}),
    ]  # fmt: skip
