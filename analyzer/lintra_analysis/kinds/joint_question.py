"""What `ron_gauss` answers: how many numbers a row is projected to, where it is clipped, which histograms it enters.

Nothing here is part of a guarantee, and no row is looked at. What comes out stands in the task. Curators ask the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import floor, isqrt, sqrt
from typing import Literal

from lintra_analysis.kinds.pair_tables import with_pairs
from lintra_analysis.releases.row_norms import NormLaw, projected_bound
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, feature_width
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.projected import MAX_FEATURES, MAX_FRAME_WORK, NO_LABEL
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.discrete import discrete_mu
from lintra_protocol.privacy.statement import MAX_SLACK, Claim
from lintra_protocol.transforms.orthonormal import frame, frame_digest

MAX_PRODUCTS = 1 << 17
"""Most words of products that are planned; a report of so many has 1 MiB."""

WHOLE_CELLS = 64
"""Up to so many values of an integer have a histogram cell each, however few cells were asked for."""


@dataclass(frozen=True)
class JointQuestion:
    """What an analyst may choose; what is None is planned."""

    #: name of the column that is the label: a category gives classes, a number one more coordinate
    label: str | None = None
    dimension: int | None = None  #: p
    radius: Fraction | None = None  #: norm of mapped rows beyond which they may be clipped, in feature units
    bins: int = 16  #: cells of the histogram of a real column; 0 for no histograms at all
    covariance: Literal["pooled", "per_class"] = "pooled"  #: whether classes share one
    mean_weight: Real | None = None  #: r
    #: pairs of columns that are counted together, by name; or "rule" (see `pair_tables`)
    pairs: Sequence[Sequence[str]] | Literal["rule"] = ()
    pair_weight: Real | None = None  #: of all pair tables together, where that of all histograms together is 1
    count_weight: Real | None = None  #: by which the noise of class counts is divided
    #: by column, where cells of its histogram begin, the first left out, in the column's own unit
    edges: Mapping[str, Sequence[Real]] = field(default_factory=dict)
    #: by column "log", for cells that are narrow near the lower bound and wider farther away
    cells: Mapping[str, Literal["log"]] = field(default_factory=dict)


def plan_ron_gauss(
    claim: Claim,
    columns: Sequence[Column],
    question: JointQuestion,
    frame_seed: bytes,
    *,
    make_frame: bool = True,
    contributors: Contributors | None = None,
) -> RonGauss:
    """Return the mechanism that answers a question, not yet calibrated.

    The noise of `claim` decides how many numbers a row is worth. `frame_seed` is 32 public bytes, used if rows are
    projected. `make_frame` says whether to make the frame, which may take ten seconds; without it the digest is that of
    none, and the mechanism is good for planning only. `contributors` are organisations that send one report each, if
    there are some. Raises InvalidTaskError if the label is not a column, or nothing is left besides it; a choice is out
    of range.
    """
    label = _label_number(columns, question.label)
    levels = tuple(len(column.levels) for column in columns)
    features = [column for number, column in enumerate(columns) if number != label]
    num_features = sum(feature_width(len(column.levels)) for column in features)
    if not 1 <= num_features <= MAX_FEATURES:
        raise InvalidTaskError(f"between 1 and {MAX_FEATURES} features besides the label are needed")
    num_classes = max(1, levels[label]) if label != NO_LABEL else 1
    blocks = num_classes if question.covariance == "per_class" else 1
    dimension = question.dimension or default_dimension(claim, num_features, blocks, contributors)
    if not 1 <= dimension <= num_features:
        raise InvalidTaskError(f"dimension lies between 1 and the {num_features} features, got {dimension}")
    if question.radius is not None and question.radius <= 0:
        raise InvalidTaskError(f"the radius must be positive, got {question.radius}")
    radius = usual_radius(columns, question) if question.radius is None else float(question.radius)
    projects = dimension < num_features
    if projects and num_features * dimension**2 > MAX_FRAME_WORK:
        raise InvalidTaskError(f"a frame of {num_features} x {dimension} takes a client too long; ask for fewer")
    made = projects and make_frame
    digest = frame_digest(frame(frame_seed, num_features, dimension)) if made else base64url(bytes(32))
    chosen = {number: tuple(edges) for number, edges in chosen_edges(columns, question).items()}
    bins = tuple(
        0 if number == label and column.levels else histogram_bins(column, question.bins)
        for number, column in enumerate(columns)
    )
    planned = RonGauss(
        row_bound=real(projected_bound(radius, num_features, dimension)),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        dimension=dimension,
        frame_seed=base64url(frame_seed) if projects else "",
        frame_digest=digest if projects else "",
        label=label,
        levels=levels,
        bins=tuple(len(chosen[number]) + 1 if number in chosen else cells for number, cells in enumerate(bins)),
        covariance=question.covariance,
        mean_weight=question.mean_weight or ("1" if num_classes > 1 else "0.6"),
        edges=tuple(chosen.get(number, ()) for number in range(len(columns))) if chosen else (),
        count_weight=question.count_weight or "1",
    )
    return with_pairs(planned, claim, columns, question.pairs, question.pair_weight or "1", contributors)


def usual_radius(columns: Sequence[Column], question: JointQuestion) -> float:
    """Return the norm of mapped rows that few rows exceed which fill their bounds evenly, the label left out."""
    label = _label_number(columns, question.label)
    return sqrt(NormLaw.of_columns([column for number, column in enumerate(columns) if number != label]).planned)


def chosen_edges(columns: Sequence[Column], question: JointQuestion) -> dict[int, list[int]]:
    """Return by column number where the cells begin that were asked for, in steps of 2^-15.

    Raises:
        InvalidTaskError: a column is unknown, no number, or asked for twice; edges do not ascend inside its bounds.
    """
    by_name = {column.name: number for number, column in enumerate(columns)}
    for name in [*question.edges, *question.cells]:
        if name not in by_name or columns[by_name[name]].kind not in {"real", "integer"}:
            raise InvalidTaskError(f"cells of {name!r}: that is no column of numbers of this task")
    if both := sorted(set(question.edges) & set(question.cells)):
        raise InvalidTaskError(f"cells of {both[0]!r}: give edges, or ask for log, not both")
    found = {by_name[name]: edge_steps(columns[by_name[name]], edges) for name, edges in question.edges.items()}
    bins = question.bins
    return found | {by_name[name]: log_edges(columns[by_name[name]], bins) for name in question.cells if bins > 1}


def useful_dimension(claim: Claim, num_blocks: int = 1, contributors: Contributors | None = None) -> int:
    """Return floor((h mu / (sqrt 2 K))^(2/3)), with h honest clients of the minimum cohort.

    Of organisations h is n sqrt(c / M) / (r s): n rows, which are `max_rows` of each of M organisations, c of them
    honest, of persons with r rows in s of them. `num_blocks` is K, matrices of products that share the clients: one, or
    one per class. `contributors` are organisations that send one report each, if there are some.

    There the noise reaches about the mean eigenvalue of the products
    (docs/reference/mechanisms/ron_gauss.md#dimension).
    """
    honest = float(claim.min_clients - claim.max_corrupt_clients)
    if contributors is not None:
        person = contributors.rows_per_person * contributors.organisations_per_person
        honest = contributors.max_rows * sqrt(claim.min_clients * honest) / person
    mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
    useful: float = (honest * mu / (sqrt(2) * num_blocks)) ** (2 / 3)
    return floor(useful)


def default_dimension(
    claim: Claim, num_features: int, num_blocks: int = 1, contributors: Contributors | None = None
) -> int:
    """Return p*: as many numbers as are useful, and as keep reports and frames small.

    `num_features` is m; `num_blocks` is the number of matrices of products, one or one per class. `contributors` are
    organisations that send one report each, if there are some.
    """
    words = (isqrt(1 + 8 * (MAX_PRODUCTS // num_blocks)) - 1) // 2
    wanted = max(1, min(useful_dimension(claim, num_blocks, contributors), words))
    if wanted >= num_features:
        return num_features
    return max(1, min(wanted, isqrt(MAX_FRAME_WORK // num_features)))


def histogram_bins(column: Column, bins: int) -> int:
    """Return the cells of a column's histogram: one for each level or few values, else `bins`; 0 if that is 0."""
    if not bins:
        return 0
    if column.kind == "category":
        return len(column.levels)
    values = fraction(column.upper) - fraction(column.lower) + 1
    return int(values) if column.kind != "real" and values <= max(bins, WHOLE_CELLS) else bins


def _label_number(columns: Sequence[Column], label: str | None) -> int:
    names = [column.name for column in columns]
    if label is None:
        return NO_LABEL
    if label not in names:
        raise InvalidTaskError(f"label {label!r} is not one of the columns")
    return names.index(label)


SMALLEST = Fraction(1, 1024)
"""The first logarithmic cell of a real column has this part of its width."""

_ONE = 1 << FEATURE_BITS


def edge_steps(column: Column, edges: Sequence[Real]) -> list[int]:
    """Return edges in a column's own unit as steps of 2^-15 of the mapped column.

    An integer column's cell begins at the edge itself: in between it and the integer before, so that rounding cannot
    move a value to another cell. Raises InvalidTaskError if edges do not ascend, do not lie inside the bounds, or are
    too close for the grid.
    """
    lower, upper = fraction(column.lower), fraction(column.upper)
    values = [fraction(edge) for edge in edges]
    inside = all(lower < value <= upper for value in values)
    if not values or not inside or any(later <= former for former, later in pairwise(values)):
        raise InvalidTaskError(
            f"edges of {column.name!r} must ascend and lie above {column.lower}, up to {column.upper}"
        )
    half = Fraction(1, 2) if column.kind == "integer" else Fraction(0)
    if half and any(value.denominator > 1 for value in values):
        raise InvalidTaskError(f"edges of {column.name!r} must be whole numbers, as its values are")
    steps = [round((2 * (value - half - lower) / (upper - lower) - 1) * _ONE) for value in values]
    if steps[0] <= -_ONE or any(later <= former for former, later in pairwise(steps)):
        raise InvalidTaskError(f"edges of {column.name!r} lie closer than its values are told apart")
    return steps


def log_edges(column: Column, cells: int) -> list[int]:
    """Return edges of at most so many cells that widen geometrically from the lower bound on.

    Of an integer column cell k begins at ceil((1 + w)^(k/B)) - 1 above the lower bound, w its width, so that 0, 1, 2
    have cells of their own; of a real one at w 1024^-((B - k)/(B - 1)).
    """
    lower, upper = fraction(column.lower), fraction(column.upper)
    width = upper - lower
    if column.kind == "integer":
        found = {-int(-((1 + float(width)) ** (k / cells)) // 1) - 1 for k in range(1, cells)}
        offsets = [Fraction(offset) for offset in sorted(found) if 0 < offset <= width]
    else:
        powers = (float(SMALLEST) ** ((cells - k) / (cells - 1)) for k in range(1, cells))
        offsets = [Fraction(power) * width for power in powers]
    half = Fraction(1, 2) if column.kind == "integer" else Fraction(0)
    steps = {round((2 * (offset - half) / width - 1) * _ONE) for offset in offsets}
    return sorted(step for step in steps if step > -_ONE)
