"""What the vectors are about: tasks with known keys, and the form in which a vector is written."""

from hashlib import sha256

import plain
from plain import b64, canonical

Vector = dict[str, object]


def good(name: str, operation: str, output: object, **inputs: object) -> Vector:
    return {"name": name, "operation": operation, "input": inputs, "output": output}


def bad(name: str, operation: str, token: str, **inputs: object) -> Vector:
    return {"name": name, "operation": operation, "input": inputs, "error": token}


def seed(name: str) -> bytes:
    return sha256(name.encode()).digest()


def identifiers(count: int) -> list[bytes]:
    return sorted(seed(f"report {index}") for index in range(count))


def texts(values: list[int]) -> list[str]:
    return [str(value) for value in values]


def text_rows(rows: list[list[int]]) -> list[list[str]]:
    return [texts(row) for row in rows]


def hexes(values: list[bytes]) -> list[str]:
    return [value.hex() for value in values]


MECHANISMS: dict[str, dict[str, object]] = {
    "sum": {"kind": "sum", "row_bound": "1", "fraction_bits": 4, "sigma": 100},
    "osnap": {"kind": "osnap", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "rows": 2, "sparsity": 1,
              "leverage": "0"},
    "overlapping": {"kind": "osnap", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "rows": 2, "sparsity": 2,
                    "leverage": "0.5"},
    "published": {"kind": "osnap_published", "row_bound": "0.707106781187", "fraction_bits": 10, "sigma": 1866,
                  "rows": 2, "sparsity": 2, "entry_bound": "0.5", "published_epsilon": "1"},
    "second_moment": {"kind": "second_moment", "row_bound": "1", "fraction_bits": 4, "sigma": 600, "intercept": "0",
                      "trace": False},
    "second_moment, both options": {"kind": "second_moment", "row_bound": "1", "fraction_bits": 4, "sigma": 800,
                                    "intercept": "0.52", "trace": True},
    "sum, clip count": {"kind": "sum", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "clip_count_weight": "0.2"},
    "second_moment, both options, clip count": {"kind": "second_moment", "row_bound": "1", "fraction_bits": 4,
                                                "sigma": 900, "intercept": "0.52", "trace": True,
                                                "clip_count_weight": "0.3"},
    "sum, row count": {"kind": "sum", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "count": "noisy"},
    "second_moment, both options, row count": {"kind": "second_moment", "row_bound": "1", "fraction_bits": 4,
                                               "sigma": 800, "intercept": "0.52", "trace": True, "count": "noisy"},
    "second_moment, both options, row count, clip count": {"kind": "second_moment", "row_bound": "1",
                                                           "fraction_bits": 4, "sigma": 900, "intercept": "0.52",
                                                           "trace": True, "count": "noisy",
                                                           "clip_count_weight": "0.3"},
    "osnap, clip count": {"kind": "osnap", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "rows": 2,
                          "sparsity": 1, "leverage": "0", "clip_count_weight": "0.3"},
    "overlapping, clip count": {"kind": "osnap", "row_bound": "1", "fraction_bits": 4, "sigma": 100, "rows": 2,
                                "sparsity": 2, "leverage": "0.5", "clip_count_weight": "0.3"},
    "published, clip count": {"kind": "osnap_published", "row_bound": "0.707106781187", "fraction_bits": 10,
                              "sigma": 1866, "rows": 2, "sparsity": 2, "entry_bound": "0.5",
                              "published_epsilon": "1", "clip_count_weight": "0.3"},
    "second_moment_wishart, clip count": {"kind": "second_moment_wishart", "row_bound": "1", "fraction_bits": 14,
                                          "sigma": 200000000, "clip_count_weight": "0.3"},
    "second_moment_wishart": {"kind": "second_moment_wishart", "row_bound": "1", "fraction_bits": 14,
                              "sigma": 200000000},
}  # fmt: skip


def definition(kind: str = "sum", servers: int = 3, **changes: object) -> dict[str, object]:
    """Return a task definition with every field written out."""
    column = {"lower": "-1", "upper": "1", "center": "0", "scale": "1", "unit": ""}
    # The published calibration and Wishart noise are undefined for a few clients.
    few, most = (300, 1000) if kind.startswith(("published", "second_moment_wishart")) else (4, 100)
    identities = [plain.ed25519_public(seed(f"server {index}")) for index in range(servers)]
    return {
        "version": "lintra/1",
        "salt": b64(seed("salt")),
        "purpose": "test vectors",
        "author_key": b64(plain.ed25519_public(seed("author"))),
        "servers": [{"url": f"https://{j}.test", "identity_key": b64(key)} for j, key in enumerate(identities)],
        "analyzer": {
            "identity_key": b64(plain.ed25519_public(seed("analyzer"))),
            "sealing_key": b64(plain.x25519_public(seed("analyzer sealing"))),
        },
        "columns": [column | {"name": name} for name in ("a", "b")],
        "mechanism": MECHANISMS[kind],
        "claim": claim(min_clients=few),
        "max_clients": most,
        "max_missing": "0.05",
        "batches": "single",
        "time_precision": 3600,
        "not_before": 10,
        "not_after": 20,
        "share_form": "uniform",
        "suite": "x25519",
        "client_auth": "none",
        "token_keys": [],
        "retention": 604800,
        "extensions": [],
    } | changes


TOWN = {"name": "town", "lower": "0", "upper": "1", "center": "0", "scale": "1", "unit": "", "kind": "category",
        "levels": ["Bern", "Chur"]}  # fmt: skip
WRONG_CODE_BOOKS: dict[str, object] = {
    "of nothing": {}, "of another level": {"levels": [{"level": "Genf", "label": "Geneva"}]},
    "of a level twice": {"levels": [{"level": "Bern", "label": "x"}, {"level": "Bern", "label": "y"}]},
    "of one spelling for two levels": {"levels": [{"level": "Bern", "synonyms": ["chur"]}]},
    "of units of a category": {"units": [{"unit": "lb", "factor": "0.5"}]},
    "of a level that is missing": {"missing": ["Bern"]}, "of an empty code": {"missing": [""]},
    "with a synonym left empty": {"levels": [{"level": "Bern", "label": "", "synonyms": []}]},
}  # fmt: skip


def wrong_code_books() -> list[tuple[str, str, dict[str, object]]]:
    """Return names, errors and changes of tasks whose code books make no sense."""
    return [
        (f"a code book {name}", "invalid_message", {"columns": [TOWN | {"code_book": book}]})
        for name, book in WRONG_CODE_BOOKS.items()
    ]


def claim(**changes: object) -> dict[str, object]:
    return {
        "epsilon": "1", "delta": "0.000001", "neighbours": "replace-one", "min_clients": 4, "max_corrupt_clients": 0,
        "threat": "static", "delta_coalition": "0",
    } | changes  # fmt: skip


def task_id(task: dict[str, object]) -> bytes:
    return plain.H("task", canonical(task).encode())
