"""Vectors of `ron_gauss`: frames, what a row becomes, its noise and its promise, tasks and their release."""

import plain
import plain_joint
from cases_data import TIME, client_report
from given import Vector, bad, definition, good, hexes, seed, task_id, text_rows, texts
from plain import b64, canonical

COLUMN = {"lower": "-1", "upper": "1", "center": "0", "scale": "1", "unit": ""}
COLUMNS = [
    COLUMN | {"name": "a"},
    COLUMN | {"name": "b", "lower": "-2", "upper": "2", "scale": "2", "kind": "integer"},
    COLUMN | {"name": "colour", "lower": "0", "upper": "2", "kind": "category", "levels": ["red", "green", "blue"]},
]
CLASSES: dict[str, object] = {
    "kind": "ron_gauss", "row_bound": "1", "fraction_bits": 4, "sigma": 1000, "dimension": 2, "frame_seed": "",
    "frame_digest": "", "label": 2, "levels": [0, 0, 3], "bins": [4, 5, 0], "indicator": 64, "covariance": "pooled",
    "mean_weight": "1",
}  # fmt: skip
MECHANISMS: dict[str, dict[str, object]] = {
    "classes": CLASSES,
    "classes, covariances by class": CLASSES | {"covariance": "per_class"},
    "a numeric label": CLASSES | {"label": 1, "dimension": 4, "bins": [0, 0, 3], "mean_weight": "0.6"},
    "pairs, edges and weights": CLASSES
    | {
        "edges": [[-32767, 0, 20000], [], []],
        "pairs": [[0, 1], [0, 2], [1, 2]],
        "pair_bins": [2, 3, 3],
        "pair_weight": "1.5",
        "count_weight": "3",
        "label": 2,
    },
    "pairs with a numeric label": CLASSES
    | {"label": 1, "dimension": 4, "bins": [8, 5, 3], "mean_weight": "0.6", "pairs": [[0, 1]], "pair_bins": [3, 5, 0]},
    "no label": CLASSES | {"label": -1, "dimension": 5, "bins": [0, 0, 0], "mean_weight": "0.6"},
}
PAIRED: dict[str, object] = {"pairs": [[0, 1]], "pair_bins": [2, 5, 0]}
ROWS: list[list[float | None]] = [
    [0.5, -0.25, 2], [0.03125, 0.09375, 0], [-1.0, 1.0, 1], [1e300, -1e300, 1e9], [0, 0, -7],
    [None, 0.75, 1], [0.5, None, None], [None, None, None],
]  # fmt: skip
GAUSSIANS = [[3, 1], [-1, 2], [2, 2], [0, -4]]


def joint() -> list[Vector]:
    frame = plain_joint.orthonormal(GAUSSIANS)
    shown = {"columns": frame, "digest": plain_joint.frame_digest(frame)}
    result = [good("the frame of four numbers and two", "orthonormal", shown, matrix=GAUSSIANS)]
    features = [16384, 16384, 0, -22938]
    for bits in (0, 12, 15):
        for name, matrix in (("a frame", frame), ("the identity", None)):
            projected = plain_joint.project(features, matrix, bits)
            result.append(
                good(f"{name}, {bits} bits", "project", texts(projected), features=texts(features), frame=matrix,
                     fraction_bits=bits)
            )  # fmt: skip
    for vector, most in (([1095, 3352], 2000), ([620, 1900], 2001), ([3, -4], 5), ([3, -4], 4), ([-(2**25)] * 3, 1)):
        clipped = plain_joint.clip(vector, most)
        result.append(good(f"clipped to {most}", "clip_exactly", texts(clipped), vector=texts(vector), bound=str(most)))
    for name, mechanism in MECHANISMS.items():
        for number, row in enumerate(ROWS):
            vector = plain_joint.joint_vector(mechanism, row)
            given = {"mechanism": mechanism, "row": [None if x is None else repr(float(x)) for x in row]}
            result.append(good(f"{name}: row {number}", "joint_vector", texts(vector), **given))
        result.append(good(f"{name}: noise", "deviations", plain_joint.deviations(mechanism), mechanism=mechanism))
        for honest in (1, 4, 1000):
            for neighbours in ("replace-one", "zero-out"):
                square = plain_joint.squared_mu(mechanism, honest, replace=neighbours == "replace-one")
                result.append(
                    good(f"{name}: {honest} honest, {neighbours}", "squared_mu",
                         [str(square.numerator), str(square.denominator)], mechanism=mechanism, honest=honest,
                         neighbours=neighbours)
                )  # fmt: skip
    for name in ("classes", "a numeric label", "pairs, edges and weights", "no label"):
        counting = MECHANISMS[name] | {"clip_count_weight": "0.3"}
        for number, row in enumerate(ROWS):
            for outside in (False, True):
                counted = str(plain_joint.clip_count(counting, row, outside))
                moved = ", moved by a column's bound" * outside
                given = {"mechanism": counting, "row": [None if x is None else repr(float(x)) for x in row]}
                result.append(good(f"{name}: row {number} counts{moved}", "clip_count", counted, outside=outside,
                                   **given))  # fmt: skip
    return result + tasks() + reports()


def reports() -> list[Vector]:
    """Reports of a task with classes: a row's vector and some noise, shared among servers."""
    result = []
    for form, servers in (("uniform", 3), ("seeded", 2)):
        task = definition(servers=servers, columns=COLUMNS, mechanism=CLASSES, share_form=form)
        vector = plain_joint.joint_vector(CLASSES, ROWS[0])
        noised = [word + noise % 2001 - 1000 for word, noise in zip(vector, seed("noise"), strict=False)]
        random = plain.keystream(seed("report"), 1000)
        made = client_report(task, noised, random)
        output = {
            "report_id": made["report_id"].hex(),  # type: ignore[attr-defined]
            "header": made["header"].hex(),  # type: ignore[attr-defined]
            "shares": hexes(made["shares"]),  # type: ignore[arg-type]
        }
        result.append(
            good(f"classes: a {form} report", "make_report", output, task=canonical(task), row=texts(noised), time=TIME,
                 random=random.hex())
        )  # fmt: skip
    return result


def tasks() -> list[Vector]:
    """One task with classes, and what is wrong with others."""
    task = definition(columns=COLUMNS, mechanism=CLASSES)
    result = [good("classes: a task", "check_task", b64(task_id(task)), text=canonical(task))]
    paired = definition(columns=COLUMNS, mechanism=CLASSES | PAIRED | {"sigma": 1300})
    result.append(good("pairs: a task", "check_task", b64(task_id(paired)), text=canonical(paired)))
    refused: list[tuple[str, str, dict[str, object]]] = [
        ("too little noise", "false_claim", {"sigma": 972}),
        ("a label that is no column", "invalid_message", {"label": 3}),
        ("levels of other columns", "invalid_task", {"levels": [0, 0, 3, 0], "bins": [4, 5, 0, 0]}),
        ("levels that are not those of the column", "invalid_task", {"levels": [0, 0, 2]}),
        ("cells that do not fit the levels", "invalid_task", {"label": -1, "dimension": 5, "bins": [0, 0, 4]}),
        ("more cells than values", "invalid_task", {"bins": [4, 6, 0]}),
        ("fewer numbers than features and no frame", "invalid_task", {"dimension": 1}),
        ("a frame that nothing needs", "invalid_task",
         {"frame_seed": b64(seed("frame")), "frame_digest": b64(seed("digest"))}),
        ("a grid finer than features", "invalid_task", {"fraction_bits": 16}),
        ("no weight for the mean", "invalid_task", {"mean_weight": "0"}),
        ("covariances by class without classes", "invalid_task",
         {"label": -1, "dimension": 5, "bins": [0, 0, 0], "covariance": "per_class"}),
        ("pairs that are not reckoned with", "false_claim", PAIRED),
        ("counts that are not reckoned with", "false_claim", {"count_weight": "3"}),
        ("a pair the wrong way round", "invalid_task", PAIRED | {"pairs": [[1, 0]]}),
        ("a pair twice", "invalid_task", PAIRED | {"pairs": [[0, 1], [0, 1]], "sigma": 4000}),
        ("cells of a column in no pair", "invalid_task", PAIRED | {"pair_bins": [2, 5, 3]}),
        ("more cells in pairs than in all", "invalid_task", PAIRED | {"pair_bins": [5, 5, 0]}),
        ("merged levels", "invalid_task", PAIRED | {"pairs": [[0, 2]], "pair_bins": [2, 0, 2]}),
        ("pairs without their cells", "invalid_message", {"pairs": [[0, 1]]}),
        ("edges that do not ascend", "invalid_task", {"edges": [[5, 5, 9], [], []]}),
        ("edges of fewer cells", "invalid_task", {"edges": [[5, 9], [], []]}),
        ("an edge beyond the bounds", "invalid_message", {"edges": [[5, 9, 32769], [], []]}),
        ("a pair weight without pairs", "invalid_task", {"pair_weight": "2"}),
        ("a pair weight of nothing", "invalid_task", PAIRED | {"pair_weight": "0"}),
        ("no pairs that are written", "invalid_message", {"pairs": [], "pair_bins": []}),
        ("a negative number of cells", "invalid_message", {"bins": [-1, 0, 0]}),
        ("no dimension", "invalid_message", {"dimension": 0}),
    ]  # fmt: skip
    for name, token, change in refused:
        text = canonical(definition(columns=COLUMNS, mechanism=CLASSES | change))
        result.append(bad(f"a task with {name}", "check_task", token, text=text))
    columns: list[tuple[str, str, dict[str, object]]] = [
        ("a column scaled otherwise", "invalid_task", {"scale": "2"}),
        ("a real column that says so", "invalid_message", {"kind": "real"}),
        ("no levels that are written", "invalid_message", {"levels": []}),
        ("a kind that nobody knows", "invalid_message", {"kind": "text"}),
    ]
    for name, token, change in columns:
        text = canonical(definition(columns=[COLUMNS[0] | change, *COLUMNS[1:]], mechanism=CLASSES))
        result.append(bad(f"a task with {name}", "check_task", token, text=text))
    # Where only numbers count, all levels of a category but the first become columns of zeros and ones.
    text = canonical(definition(columns=COLUMNS))
    result.append(good("a sum of a category", "check_task", plain.b64(plain.H("task", text.encode())), text=text))
    for row in ([0.5, 1.0, 0.0], [-0.25, 0.0, 1.0], [4.0, 1.0, 2.0]):
        output = [str(float(value)) for value in plain.indicators(COLUMNS, row)]
        name = f"a row with level {row[2]:g} of a category"
        result.append(good(name, "normalised", output, task=text, row=[str(value) for value in row]))
    taken = [*COLUMNS, COLUMNS[0] | {"name": "colour[blue]"}]
    text = canonical(definition(columns=taken))
    result.append(bad("a column named like an indicator", "check_task", "invalid_task", text=text))
    return result


def joint_sketches() -> list[Vector]:
    """The sum of five reports mod 2^64, and what the analyzer reads from one."""
    size = len(plain_joint.joint_vector(CLASSES, ROWS[0]))
    stream = plain.bytes_words(plain.keystream(seed("ron_gauss"), 8 * 5 * size))
    shares = [stream[start : start + size] for start in range(0, len(stream), size)]
    sums = plain.sketch(1, [[(0, 1)]] * 5, shares)
    small = [plain.to_words([word % 2**40 - 2**39 for word in sums[0]])]
    return [
        good("ron_gauss: a sketch", "sketch", text_rows(sums), shares=text_rows(shares), seed=seed("matrix").hex(),
             mechanism=CLASSES),
        good("ron_gauss: decoding", "decode", plain_joint.decode(CLASSES, small[0]), sketch=text_rows(small), columns=3,
             mechanism=CLASSES),
    ]  # fmt: skip
