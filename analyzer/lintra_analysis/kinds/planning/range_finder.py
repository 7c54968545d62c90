"""Planning `range_finder`: how many projected columns, how far to clip them, and what is left of a direction."""

import math
from fractions import Fraction

from lintra_analysis.kinds.clip_count import clip_count_deviation, with_clip_count
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.range_finder import MAX_BITS, RangeFinder, Target

FEW_COLUMNS = 2500
USUAL_RANK, RANK_OF_MANY = 64, 32

USUAL_UNCLIPPED = 0.95
"""The part of all draws of W in which a row of full length has its projection left as it is."""

UNCLIPPED_FOR_INTERVALS = 0.999
"""The same where intervals are wanted of columns that are not centred: most rows then share one direction."""

OMEGA_SEED_BYTES = 32


def usual_rank(num_columns: int) -> int:
    """Return r where nobody asks for one: 64 up to 2,500 columns, 32 above, and at most half of them.

    More is never worse for what is found; it is a matter of bytes.
    """
    return max(1, min(USUAL_RANK if num_columns <= FEW_COLUMNS else RANK_OF_MANY, num_columns // 2))


def usual_projected_bound(row_bound: Real, num_columns: int, rank: int, unclipped: float = USUAL_UNCLIPPED) -> Real:
    """Return C so that a row of full length is left as it is with a chance of `unclipped` over W; in six digits.

    `row_bound` is B; `num_columns` is d. `rank` is r, at most d/2; `unclipped` is between 0 and 1.

    |W^T x|^2 / |x|^2 is d/r times a Beta(r/2, (d-r)/2) variable for a random frame (docs/explanation/privacy.md#joint,
    Theorem J5), and close to it for signs.

    Raises:
        InvalidTaskError: the rank is out of range.
    """
    from scipy.special import betaincinv

    if not 1 <= 2 * rank <= num_columns:
        raise InvalidTaskError(f"rank {rank} does not lie between 1 and half of {num_columns} columns")
    longest = float(betaincinv(rank / 2, (num_columns - rank) / 2, unclipped)) * num_columns / rank
    return real(f"{float(fraction(row_bound)) * math.sqrt(longest):.6g}")


def usual_bits(mechanism: RangeFinder) -> int:
    """Return g for all targets: the largest with which they are together at most an eighth of the projected row.

    With k targets, the largest of them M, that is k 4^g min(M, B)^2 at most r C^2 / (8 4^h): 6 % more noise.
    """
    widest = max((fraction(target.bound) for target in mechanism.targets), default=Fraction(0))
    longest = min(widest, fraction(mechanism.row_bound))
    room = mechanism.rank * fraction(mechanism.projected_bound) ** 2 / (8 * 4**mechanism.halvings)
    held = len(mechanism.targets) * longest**2
    return max((g for g in range(MAX_BITS + 1) if 0 < held * 4**g <= room), default=0)


def plan_range_finder(question: Question) -> Option:
    """Calibrate the range finder with the usual rank and projection, and one target where the label is a number.

    A direction with the eigenvalue lam of the sum of products is seen if lam is above s_E sqrt(d), s_E the deviation
    of a projected product; sin^2 of its angle is then about s_E^2 d / lam^2.
    """
    claim, d = question.claim, question.columns + (question.label == 1)
    rank = usual_rank(d)
    plain = RangeFinder(
        row_bound=question.row_bound,
        fraction_bits=0,
        sigma=MIN_SIGMA,
        rank=rank,
        # Which signs are drawn changes nothing that is planned.
        omega_seed=base64url(bytes(OMEGA_SEED_BYTES)),
        projected_bound=usual_projected_bound(question.row_bound, d, rank),
        intercept=question.intercept,
        targets=(Target(column=d - 1, bound=question.row_bound),) if question.label == 1 else (),
        trace=question.trace,
    )
    asked = with_clip_count(plain, claim.neighbours, question.clip_count_weight)
    mechanism = asked.calibrated(claim, d, question.max_clients)
    root, scales = math.sqrt(claim.min_clients), mechanism.word_scales() * mechanism.sigma
    deviations = {"projected product": root * scales[-1]}
    if mechanism.has_intercept:
        deviations["sum"] = root * scales[0]
        deviations["mean"] = deviations["sum"] / claim.min_clients
    if mechanism.targets:
        deviations["product with the target"] = root * scales[int(mechanism.has_intercept)]
    if mechanism.trace:
        deviations["trace"] = root * mechanism.sigma * 4.0**-mechanism.fraction_bits
    deviations = {name: float(value) for name, value in deviations.items()}
    deviations |= clip_count_deviation(mechanism, claim.min_clients)
    return option_of(question, mechanism, sigma=float(scales[-1]), deviations=deviations, columns=d)


PLAN = KindPlan(plan_range_finder, predicts=False)
