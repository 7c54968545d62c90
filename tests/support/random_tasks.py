"""Random small tasks of all kinds: whatever options fit together, organisations, noise of servers, clip counters."""

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms import (
    MECHANISMS,
    Histogram,
    HistogramLaplace,
    Mechanism,
    NewtonStep,
    RangeFinder,
    RonGauss,
    RonGaussCentred,
    SecondMoment,
    Sum,
    SumLaplace,
    WishartSecondMoment,
)
from lintra_protocol.mechanisms.directions import encode_basis
from lintra_protocol.mechanisms.joint_rows import feature_width
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.range_finder import Target
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from lintra_protocol.transforms.orthonormal import frame, frame_digest
from support.seeds import SEED
from support.tasks import columns_of, make_task, uncalibrated

KINDS = tuple(MECHANISMS)

OF_ORGANISATIONS = {
    "sum",
    "second_moment",
    "histogram",
    "range_finder",
    "ron_gauss",
    "ron_gauss_centred",
    "newton_step",
}
NOISED_BY_SERVERS = {"sum", "second_moment", "osnap"}


class Wish(NamedTuple):
    """What is asked for before it is calibrated."""

    measurement: Measurement
    columns: tuple[Column, ...]
    num_servers: int
    max_clients: int

    def task(self) -> Task:
        """Return the checked task, whose noise is calibrated.

        Raises:
            LintraError: the parts do not fit together.
        """
        calibrated = self.measurement.calibrated(self.max_clients)
        return self.task_of(calibrated.mechanism, check=True)

    def task_of(self, mechanism: Mechanism, *, check: bool) -> Task:
        """Return the task of a mechanism."""
        setting, claim = self.measurement.setting, self.measurement.claim
        return make_task(
            mechanism,
            columns=self.columns,
            claim=claim,
            num_servers=self.num_servers,
            contributors=setting.contributors,
            noise="servers" if setting.noising_servers else "clients",
            max_clients=max(claim.min_clients, 1000),
            client_auth="none",
            check=check,
        )


def random_wish(seed: int, kind: str | None = None) -> Wish:
    """Return what a seed asks for, of a kind or of any.

    Raises:
        ValueError: the options do not make a document.
    """
    draw = random.Random(seed)
    kind = draw.choice(KINDS) if kind is None else kind
    size = draw.randint(2, 9) if kind == "range_finder" else draw.randint(1, 7)
    bound, servers = draw.choice([0.5, 1.0, 2.5]), draw.choice([2, 3, 5])
    organisations = kind in OF_ORGANISATIONS and draw.random() < 0.4
    neighbours = draw.choice(["replace-one", "zero-out"] + ["add-remove"] * organisations)
    clients = draw.choice([200, 2000] if kind == "osnap_published" else [8, 30, 200])
    contributors = _contributors(draw, kind, bound, neighbours) if organisations else None
    by_servers = not organisations and kind in NOISED_BY_SERVERS and draw.random() < 0.35
    claim = Claim(
        epsilon=real(draw.choice([0.5, 1, 4, 8])),
        delta="0.000001",
        min_clients=clients,
        max_corrupt_clients=clients - 1 if organisations else draw.choice([0, 0, 2]),
        neighbours=neighbours,
    )
    counted = contributors is not None and contributors.count == "noisy"
    asked = _Asked(draw, size, bound, neighbours == "replace-one", organisations, counted)
    mechanism, columns = _MAKERS[kind](asked)
    if not organisations and "clip counter" in mechanism.allows:
        mechanism = mechanism.model_copy(update={"clip_count_weight": draw.choice(["0", "0.2", "0.5"])})
    encoded = len(Schema(columns, indicators="levels" not in mechanism.allows).encoded)
    measurement = Measurement(mechanism, encoded, Setting(contributors, servers * by_servers), claim)
    return Wish(measurement, columns, servers, draw.choice([clients, 1000, 100_000]))


def random_rows(task: Task, seed: int, count: int = 40) -> FloatArray:
    """Return rows in the columns' own units, shape `(count, d)`, some of them beyond the bounds of a row."""
    generator = np.random.default_rng(seed)
    rows = np.clip(generator.normal(size=(count, len(task.columns))) * 0.8, -1, 1)
    for number, column in enumerate(task.columns):
        if column.levels or column.kind == "boolean":
            rows[:, number] = generator.integers(0, max(len(column.levels), 2), count)
    return rows


def random_persons(task: Task, seed: int, count: int = 40) -> tuple[IntArray, IntArray]:
    """Return which of so many rows an organisation keeps, and whose they are; at most as many as a task allows."""
    assert task.contributors is not None
    generator, most = np.random.default_rng(seed), task.contributors.rows_per_person
    persons = np.unique(generator.integers(0, count, count), return_inverse=True)[1]
    places = np.concatenate([np.flatnonzero(persons == one)[:most] for one in range(persons.max() + 1)])
    places = places[: task.contributors.max_rows]
    return places, np.unique(persons[places], return_inverse=True)[1].astype(np.int64)


class _Asked(NamedTuple):
    draw: random.Random
    size: int
    bound: float
    replaced: bool
    organisations: bool
    counted: bool

    @property
    def document(self) -> dict[str, object]:
        return {"row_bound": real(self.bound), "fraction_bits": 0, "sigma": 4}

    @property
    def plain_columns(self) -> tuple[Column, ...]:
        return columns_of("abcdefghijk"[: self.size])


def _contributors(draw: random.Random, kind: str, bound: float, neighbours: str) -> Contributors:
    together = kind in {"sum", "second_moment"} and draw.random() < 0.4
    return Contributors(
        max_rows=draw.choice([50, 1000]),
        rows_per_person=draw.choice([1, 2, 5]),
        organisations_per_person=draw.choice([1, 1, 2]),
        count="noisy" if neighbours == "add-remove" else draw.choice(["exact", "noisy"]),
        person_bound=real(bound * draw.choice([0.9, 1])) if together else None,
    )


def _sketch(kind: str) -> Callable[[_Asked], tuple[Mechanism, tuple[Column, ...]]]:
    def made(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
        sparsity = asked.draw.choice([1, 1, 2, 3])
        rows = asked.draw.choice([sparsity, sparsity * 2, sparsity * 4])
        return uncalibrated(kind, asked.bound, rows, sparsity, asked.size), asked.plain_columns

    return made


def _histogram(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    draw, edges, levels, columns = asked.draw, [], [], []
    for number in range(asked.size):
        many = draw.randint(2, 5) if draw.random() < 0.4 else 0
        levels.append(many)
        columns.append(_column(number, many))
        edges.append(() if many else ("-1", "1") if draw.random() < 0.3 else ("-1", "-0.25", "0", "1"))
    indicator = draw.choice([64, 4096, 1000])
    return Histogram(sigma=4, edges=tuple(edges), levels=tuple(levels), indicator=indicator), tuple(columns)


def _column(number: int, levels: int, **scales: str) -> Column:
    if levels == 2 and not scales:
        return Column(name=f"c{number}", kind="boolean", lower="0", upper="1")
    if levels:
        names = tuple(f"L{level}" for level in range(levels))
        return Column(name=f"c{number}", kind="category", levels=names, lower="0", upper=str(levels - 1))
    return Column(name=f"c{number}", lower="-1", upper="1", **scales)


def _range_finder(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    draw, plain = asked.draw, uncalibrated("range_finder", asked.bound, columns=asked.size)
    assert isinstance(plain, RangeFinder)
    targets = range(draw.randint(0, min(2, asked.size)))
    options = {
        "targets": tuple(Target(column=column, bound="1", bits=draw.randint(0, 2)) for column in targets),
        "trace": asked.replaced and draw.random() < 0.4,
        "intercept": draw.choice(["0", real(asked.bound / 4)]),
        "rank": draw.randint(1, asked.size // 2),
    }
    return plain.model_copy(update=options), asked.plain_columns


def _sum(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    count = "exact" if asked.organisations else asked.draw.choice(["exact", "noisy"])
    return Sum(**asked.document, count=count), asked.plain_columns


def _sum_laplace(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    return SumLaplace(**asked.document, count=asked.draw.choice(["exact", "noisy"])), asked.plain_columns


def _histogram_laplace(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    plain, columns = _histogram(asked)
    update = {"kind": "histogram_laplace", "indicator": asked.draw.choice([1, 64])}
    return HistogramLaplace.model_validate(plain.model_dump() | update), columns


def _second_moment(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    draw, options = asked.draw, {}
    count = "exact" if asked.organisations else draw.choice(["exact", "noisy"])
    intercepts = [real(asked.bound / 2), real(asked.bound / 4), real(1.5 * asked.bound)]
    if count == "exact" and not asked.counted:
        intercepts.append("0")
    if draw.random() < 0.3:
        rank = draw.randint(1, 4)
        basis = np.array([[draw.randint(-4000, 4000) for _ in range(rank)] for _ in range(asked.size)])
        targets = tuple(range(draw.randint(0, min(2, asked.size))))
        options = {"basis": encode_basis(basis), "after": "A" * 43, "targets": targets}
    trace = asked.replaced and draw.random() < 0.5
    intercept = draw.choice(intercepts)
    return SecondMoment(**asked.document, intercept=intercept, trace=trace, count=count, **options), asked.plain_columns


def _newton_step(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    draw, target = asked.draw, asked.draw.randrange(asked.size)
    columns = [_column(number, 2 * (number == target)) for number in range(asked.size)]
    later = {"parameter": tuple(f"{draw.randint(1, 9)}" for _ in columns), "after": "A" * 43}
    options = {"neighbours": "replace-one" if asked.replaced else "zero-out"}
    start = {"parameter": ("0",) * asked.size}
    mechanism = NewtonStep(
        **asked.document,
        target=target,
        intercept=real(asked.bound / draw.choice([2, 4])),
        residual_bits=draw.randint(8, 12),
        **draw.choice([start, later]),
        **options,
    )
    return mechanism, tuple(columns)


def _wishart(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    return WishartSecondMoment(**asked.document), asked.plain_columns


def _projected(asked: _Asked) -> tuple[dict[str, object], tuple[Column, ...], int]:
    draw, label = asked.draw, asked.draw.choice([-1, -1, 0, asked.size - 1])
    levels = [draw.choice([0, 0, 2, 3]) for _ in range(asked.size)]
    columns = tuple(_column(number, many, center="0", scale="1") for number, many in enumerate(levels))
    features = sum(feature_width(many) for number, many in enumerate(levels) if number != label)
    dimension, options = draw.randint(1, max(features, 1)), {}
    if dimension < features:
        seed = derive_seed(SEED, "frame")
        digest = frame_digest(frame(seed, features, dimension))
        options = {"frame_seed": base64url(seed), "frame_digest": digest}
    classes = max(levels[label], 1) if label >= 0 else 1
    covariance = draw.choice(["pooled", "per_class"]) if classes > 1 else "pooled"
    document = {**asked.document, "dimension": dimension, "levels": tuple(levels), "label": label, **options}
    return {**document, "covariance": covariance}, columns, classes


def _ron_gauss(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    draw, (document, columns, _) = asked.draw, _projected(asked)
    levels, label = document["levels"], document["label"]
    bins = [0] * asked.size
    for number, many in enumerate(levels):
        if not (number == label and many):
            bins[number] = draw.choice([many, 0]) if many else draw.choice([0, 3, 8])
    paired, options = [number for number in range(asked.size) if bins[number]][:2], {}
    if len(paired) == 2 and draw.random() < 0.5:
        cells = tuple((levels[number] or 2) if number in paired else 0 for number in range(asked.size))
        options = {"pairs": (tuple(paired),), "pair_bins": cells}
    weight, indicator = draw.choice(["0.6", "1"]), draw.choice([64, 4096, 1000])
    made = RonGauss(**document, bins=tuple(bins), mean_weight=weight, indicator=indicator, **options)
    return made, columns


def _ron_gauss_centred(asked: _Asked) -> tuple[Mechanism, tuple[Column, ...]]:
    document, columns, classes = _projected(asked)
    size = document["dimension"] + (document["label"] >= 0 and classes == 1)
    centers = tuple(tuple(asked.draw.randint(-9000, 9000) for _ in range(size)) for _ in range(classes))
    return RonGaussCentred(**document, after="A" * 43, centers=centers), columns


_MAKERS: dict[str, Callable[[_Asked], tuple[Mechanism, tuple[Column, ...]]]] = {
    "histogram": _histogram,
    "histogram_laplace": _histogram_laplace,
    "newton_step": _newton_step,
    "osnap": _sketch("osnap"),
    "osnap_published": _sketch("osnap_published"),
    "range_finder": _range_finder,
    "ron_gauss": _ron_gauss,
    "ron_gauss_centred": _ron_gauss_centred,
    "sum": _sum,
    "sum_laplace": _sum_laplace,
    "second_moment": _second_moment,
    "second_moment_wishart": _wishart,
}
