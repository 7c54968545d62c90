"""Forecasts the errors that a task's noise will cause in rows like those of a sample, before any row is collected.

The sample's sums replace those of the cohort, and the release is analysed as a real one is, so the errors are those
that a real release would state. No noise is drawn. A cohort of organisations is the smallest that the task allows. Each
has the stated number of rows, and every row is that of another person.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.stats import qmc

from lintra_analysis.estimators.centred import centred
from lintra_analysis.estimators.correlation import usable_variances
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.spectral import smallest_eigenvalue
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task, warnings_of
from lintra_analysis.spec.specification import Specification
from lintra_analysis.spec.stream import StreamOption, stream_options
from lintra_analysis.trial.chain_forecast import ChainForecast, foresee_chain
from lintra_analysis.trial.collection import NUM_SERVERS, placeholder_keys, placeholder_servers
from lintra_analysis.trial.files.table import FileTable
from lintra_analysis.trial.mechanism_forecast import SketchForecast, WideForecast, foresee_sketch, foresee_wide
from lintra_analysis.trial.what_if import GUESS, Prospect, outlook
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, first_complaint, fraction, real
from lintra_protocol.errors import InvalidAnalysisError, InvalidRowError, InvalidTaskError
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.task import Task

SPREAD_ROWS = 2048
"""Rows that stand for the cohort where there is no sample: every column spread evenly over its bounds."""

HALTON_COLUMNS = 20
"""So many columns have Halton's points: the largest prime is 71, far below the number of rows."""

SHARE = "share of the rows in a cell"
COORDINATE = "mean of a coordinate of mapped rows"

_WORDS_TOGETHER = 1 << 21


@dataclass(frozen=True)
class ComposedPrivacy:
    """Both epsilons of a task with windows, and a promise for all reports of one source instead of for one window.

    The noise of windows is independent, so k reports of one source have sqrt(k) times the mu of one (`repeated`), and
    sqrt(M k) times where M windows may be merged. To promise the same epsilon for all of them, every window has to have
    that much more noise. The claim of a stream is about all reports already.

    Attributes:
        windows: how many there are.
        merged: how many in a row may be released together.
        reports: in how many of them one source may answer.
        delta: that both epsilons belong to.
        epsilon_of_one: of one window, recomputed; the largest of any cohort.
        epsilon_of_all: of all reports of one source.
        epsilon_to_ask: that one window may have if all of them together shall keep the promise; five digits, rounded
            down.
        noise_factor: how many times the noise that every window then has.
        streams: the stream that was asked for, and others; none where windows are independent.
    """

    windows: int
    merged: int
    reports: int
    delta: float
    epsilon_of_one: float
    epsilon_of_all: float
    epsilon_to_ask: Real
    noise_factor: float
    streams: tuple[StreamOption, ...] = ()

    @property
    def costs_more(self) -> bool:
        """Return whether all reports of a source cost more than the promise of one window."""
        return self.reports > 1 and not self.streams

    @classmethod
    def of(cls, task: Task) -> "ComposedPrivacy | None":
        """Return both epsilons of a valid task, or None if it has no windows."""
        if task.windows is None:
            return None
        one, together, reports = task.worst_privacy(), task.worst_together(), task.reports_per_source
        claim, times = task.claim, reports if task.stream is None else 1
        left = float(fraction(claim.delta) - times * fraction(claim.delta_coalition))
        share = gaussian_mu(claim.float_epsilon, left) / sqrt(times * task.max_merge)
        return cls(
            windows=task.windows.max_windows,
            merged=task.max_merge,
            reports=reports,
            delta=one.delta,
            epsilon_of_one=one.epsilon,
            epsilon_of_all=together.epsilon,
            epsilon_to_ask=_rounded_down(gaussian_epsilon(share, claim.noise_delta)),
            noise_factor=gaussian_mu(claim.float_epsilon, claim.noise_delta) / share,
            streams=() if task.stream is None else stream_options(task.stream),
        )


@dataclass(frozen=True)
class ErrorForecast:
    """What to expect of a task.

    Attributes:
        task: that the specification becomes.
        rows_from: where the rows come from that errors are expected for.
        means: by column, the deviation that the noise causes in its mean, in its unit; None if means are not released.
        correlations: for every pair of columns the deviation that the noise causes; None if there are none. A pair that
            noise drowns is left out.
        coefficients: by feature, value and deviation (None where noise leaves it unbounded); None without a target.
        wide: what a range finder would tell; None for other mechanisms.
        chain: what the rounds of a logistic regression would tell; None for other mechanisms.
        sketch: what a sketch would tell, which has no errors by column; None for other mechanisms.
        others: deviations that the noise causes in what is about no single column, by what it is.
        prospects: how well coefficients could be told from other cohorts and at other epsilons; None without a target.
        organisation_rows: how many rows each organisation is expected to have; None where every report is a row.
        if_colluding: what epsilon becomes if so many per cent of the smallest cohort collude.
        together: both epsilons of a task with windows; None without.
        warnings: in plain words.
    """

    task: Task
    rows_from: str
    means: dict[str, float] | None
    correlations: dict[tuple[str, str], float] | None
    coefficients: dict[str, tuple[float, float | None]] | None
    wide: WideForecast | None
    chain: ChainForecast | None
    sketch: SketchForecast | None
    others: dict[str, float]
    prospects: tuple[Prospect, ...] | None
    organisation_rows: int | None
    if_colluding: dict[int, float]
    together: ComposedPrivacy | None
    warnings: tuple[str, ...]


def foresee(
    document: Mapping[str, object],
    sample: FileTable | None,
    target: str | None,
    now: int,
    random_bytes: RandomBytes,
    organisation_rows: int | None = None,
    num_servers: int = NUM_SERVERS,
) -> ErrorForecast:
    """Forecast the errors of a specification's task at its smallest cohort.

    `document` is the specification (docs/reference/analyzer-tasks.md). `sample` is public or synthetic rows; without it
    every column is spread evenly over its bounds, independently. `target` is a column to explain by the others, if a
    regression is planned. `organisation_rows` is the expected number of rows of each organisation; as many as the task
    allows if not given. `num_servers` is the number of servers; each adds noise where servers do.

    Raises:
        InvalidTaskError: the specification is malformed; the detail names the field. Or rows of organisations are said
            that the task does not have.
        InvalidRowError: the sample lacks a column.
        LintraError: no task can promise what is asked for.
    """
    try:
        specification = Specification.model_validate(dict(document))
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None
    servers, keys = placeholder_servers(random_bytes, num_servers), placeholder_keys(random_bytes)
    task = build_task(specification, servers, keys, now, random_bytes)
    rows = spread_rows(task) if sample is None else sample_rows(task, sample)
    each = _rows_of_each(task, organisation_rows)
    sketch = foresee_sketch(task, rows)
    release = None if sketch is not None else _without_noise(task, rows, each)
    wide = None if release is None else foresee_wide(release, target)
    known = None if target is None or release is None or wide is not None else (release, target)
    return ErrorForecast(
        task=task,
        rows_from="columns spread evenly over their bounds" if sample is None else f"a sample of {len(rows):,} rows",
        means=None if release is None else _means(release),
        correlations=None if release is None else _correlations(release),
        coefficients=None if known is None else _coefficients(*known),
        wide=wide,
        chain=foresee_chain(task, rows, release),
        sketch=sketch,
        others={} if release is None else _others(release),
        prospects=None if known is None else _prospects(task, *known, each or 1, guessed=sample is None),
        organisation_rows=each,
        if_colluding=epsilons_if_colluding(task.measurement, task.claim, task.shares_seen),
        together=ComposedPrivacy.of(task),
        warnings=(*warnings_of(task), *([GUESS] if sample is None and known is not None else [])),
    )


def sample_rows(task: Task, sample: FileTable) -> FloatArray:
    """Return the complete rows of a sample as the task takes them, shape `(n, d)`.

    Raises:
        InvalidRowError: a column is missing, or a text stands where the task has a number.
    """
    parts = [_as_declared(column, sample) for column in task.columns]
    block = np.column_stack(parts)
    whole = block[~np.isnan(block).any(axis=1)]
    if len(whole) < 2:
        raise InvalidRowError("the sample has fewer than 2 rows with all the task's columns")
    return task.schema_arrays.rows(whole)


def spread_rows(task: Task) -> FloatArray:
    """Return `SPREAD_ROWS` rows that fill the columns' bounds evenly, independently; shape `(n, d)`.

    A few columns have the points of Halton (1960), whose large primes would make many columns alike; the columns after
    these have a Latin hypercube (McKay, Beckman, Conover 1979), always the same.
    """
    arrays = task.schema_arrays
    points = qmc.Halton(HALTON_COLUMNS, scramble=False).fast_forward(1).random(SPREAD_ROWS)
    parts = []
    for position, column in enumerate(task.columns):
        places = points[:, position] if position < HALTON_COLUMNS else _shuffled(position)
        low, high = arrays.lower[position], arrays.upper[position]
        if column.kind == "real":
            parts.append(low + (high - low) * places)
        else:
            parts.append(np.minimum(np.floor(low + (high - low + 1) * places), high))
    return np.column_stack(parts)


def _rows_of_each(task: Task, asked: int | None) -> int | None:
    """Return how many rows each organisation is expected to have; None where every report is a row."""
    if task.contributors is None:
        if asked is not None:
            raise InvalidTaskError("rows of an organisation are said, but the specification has no contributors")
        return None
    most = task.contributors.max_rows
    if asked is not None and not 1 <= asked <= most:
        raise InvalidTaskError(f"an organisation contributes between 1 and max_rows {most} rows, not {asked}")
    return asked or most


def _without_noise(task: Task, rows: FloatArray, each: int | None) -> Release:
    """Return the release of the smallest cohort if its rows were like these and there was no noise.

    `task` may have contributors; `rows` has shape `(n, d)`, in users' units. `each` says how many rows every
    organisation has.
    """
    clients, normalised = task.claim.min_clients, task.schema_arrays.normalise(rows)
    if each is None:
        mean = _mean_report(task, normalised, task.schema_arrays.outside(rows))
    else:
        mean = _mean_of_everybody(task, normalised)
    sums: IntArray = np.rint(mean * clients * (each or 1)).astype(np.int64)[np.newaxis]
    return read(task, sums, np.array([clients], np.int64))


def _mean_of_everybody(task: Task, normalised: FloatArray) -> FloatArray:
    """Return the mean of the noiseless contributions of rows, each that of a person of its own."""
    known, most = task.mechanism.with_centre_for_missing(normalised), task.setting.rows_per_report
    parts = [known[start : start + most] for start in range(0, len(known), most)]
    dither = expand(bytes(32), "dithering of a forecast")
    total = sum(task.measurement.exact_contribution(part, np.arange(len(part)), dither) for part in parts)
    mean: FloatArray = np.asarray(total) / np.float64(len(known))
    return mean


def _mean_report(task: Task, normalised: FloatArray, outside: NDArray[np.bool_]) -> FloatArray:
    """Return the mean of the noiseless reports of rows, some of them at a time."""
    total, together = np.zeros(task.num_words), max(1, _WORDS_TOGETHER // task.num_words)
    dither = expand(bytes(32), "dithering of a forecast")
    for start in range(0, len(normalised), together):
        some = slice(start, start + together)
        total += task.measurement.exact_reports(normalised[some], outside[some], dither).sum(axis=0, dtype=np.float64)
    return total / len(normalised)


def _means(release: Release) -> dict[str, float] | None:
    try:
        found = means(release, of="cohort")
    except InvalidAnalysisError:
        return None
    if found.means is None:
        return None
    pairs = zip(found.columns, found.means, strict=True)
    return {name: each.standard_error.privacy for name, each in pairs if each.standard_error is not None}


def _correlations(release: Release) -> dict[tuple[str, str], float] | None:
    """Return the deviation that noise causes in every correlation that it does not drown; no interval is searched."""
    try:
        gram = centred(release).gram
    except InvalidAnalysisError:
        return None
    usable = usable_variances(gram)
    root = np.sqrt(np.where(usable, np.diagonal(gram.matrix), 1.0))
    raw = gram.matrix / np.outer(root, root)
    np.fill_diagonal(raw, 1.0)
    errors = np.sqrt(np.maximum(gram.errors.correlation_variance(raw, root**2), 0.0))
    names, kept = [column.name for column in gram.columns], np.flatnonzero(usable).tolist()
    return {(names[i], names[j]): float(errors[i, j]) for i in kept for j in kept if i < j} or None


def _others(release: Release) -> dict[str, float]:
    found: dict[str, float] = {}
    with suppress(InvalidAnalysisError):
        cells = release.need("cells")
        found[SHARE] = cells.noise_sd / cells.num_clients
    with suppress(InvalidAnalysisError):
        sums = release.need("joint_sums")
        found[COORDINATE] = sums.noise.sum / sums.num_clients
        if sums.histogram_features:
            found[SHARE] = sums.noise.cell / sums.num_clients
    return found


def _coefficients(release: Release, target: str) -> dict[str, tuple[float, float | None]]:
    found = regression(release, target, of="cohort")
    errors = found.bse
    return {each.name: (each.value, errors[each.name]) for each in found.rows}


def _prospects(task: Task, release: Release, target: str, each: int, *, guessed: bool) -> tuple[Prospect, ...] | None:
    gram = design(release, target).gram
    noise = gram.errors.spectral_sigma
    if not noise:
        return None
    claim = task.claim
    smallest = smallest_eigenvalue(gram.matrix[:-1, :-1])
    rows, epsilon = claim.min_clients * each, float(fraction(claim.epsilon))
    return outlook(smallest, noise, rows, epsilon, claim.noise_delta, guessed=guessed)


def _as_declared(column: Column, sample: FileTable) -> FloatArray:
    found = sample.column(column.name)
    if column.kind != "category":
        if found.kind == "category":
            raise InvalidRowError(f"column {column.name!r} of the sample holds texts; the task has numbers")
        return np.rint(found.values) if column.kind != "real" else found.values
    if found.kind != "category":
        raise InvalidRowError(f"column {column.name!r} of the sample holds numbers; the task has levels")
    places = {level: float(number) for number, level in enumerate(column.levels)}
    unknown = [level for level in found.levels if level not in places and level != OTHER]
    if unknown and OTHER not in places:
        raise InvalidRowError(
            f"column {column.name!r} of the sample has the level {unknown[0]!r}, which is none of "
            f"{column.levels_in_words()}"
        )
    numbers = [places.get(level, places.get(OTHER, np.nan)) for level in found.levels]
    return np.array(numbers)[found.values.astype(np.int64)]


def _shuffled(position: int) -> FloatArray:
    """Return the middles of `SPREAD_ROWS` equal cells in an order of the position's own."""
    drawn = expand(bytes(32), f"spread rows {position}")(8 * SPREAD_ROWS)
    order = np.argsort(np.frombuffer(drawn, "<u8"))
    places: FloatArray = (order + 0.5) / SPREAD_ROWS
    return places


def _rounded_down(number: float) -> Real:
    return real(Context(prec=5, rounding=ROUND_FLOOR).create_decimal_from_float(number))
