"""Planning two rounds of `ron_gauss`: counts, means and histograms of the first, products of the second."""

import math
from dataclasses import replace

from lintra_analysis.kinds.clip_count import clip_count_deviation, with_clip_count
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of, predict
from lintra_analysis.kinds.planning.ron_gauss import asked_mechanism, columns_of, joint_option, products_trace
from lintra_analysis.kinds.two_rounds import claim_with_mu, first_round, mu_of_rounds
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.statement import MAX_SLACK


def plan_two_rounds(question: Question) -> Option:
    """Calibrate both rounds of one promise, and predict the error of the second.

    The second round's bound is taken from the first's means, which nobody knows yet: this plans for the first round's
    bound, the largest that it can have, and for centres in the middle. Bytes and epsilon are those of both together.

    Raises:
        InvalidTaskError, RowUnderfilledError: no such tasks are possible.
    """
    total, columns = question.claim, columns_of(question)
    claim, asked = first_round(total, asked_mechanism(question))
    begun = replace(question, claim=claim)
    first = asked.calibrated(claim, len(columns), question.max_clients)
    one = joint_option(begun, first)
    left = mu_of_rounds(total) ** 2 - first.privacy(claim, len(columns), claim.min_clients).mu ** 2
    if left <= 0:
        raise InvalidTaskError("the first round has used up the whole promise")
    kept = {name: getattr(first, name) for name in _KEPT}
    second = RonGaussCentred(
        row_bound=first.row_bound,
        fraction_bits=0,
        sigma=MIN_SIGMA,
        after=base64url(bytes(32)),
        centers=((0,) * first.num_coordinates,) * first.num_classes,
        **kept,
    )
    second = with_clip_count(second, total.neighbours, question.clip_count_weight)
    begun = replace(question, claim=claim_with_mu(total, math.sqrt(left)))
    mechanism = second.calibrated(begun.claim, len(columns), question.max_clients)
    step, root, size = 4.0**-mechanism.fraction_bits, math.sqrt(total.min_clients), mechanism.num_coordinates
    product = root * mechanism.sigma * step
    error = mechanism.num_blocks * product**2 * size * (size + 1)
    option = option_of(
        begun,
        mechanism,
        sigma=mechanism.sigma * step,
        deviations={name: value for name, value in one.deviations.items() if name not in ("product", "square")}
        | {"product": product, "square": math.sqrt(2) * product}
        | clip_count_deviation(mechanism, total.min_clients),
        columns=len(columns),
        predicted=predict(question, error, trace=products_trace(question, first), columns=size),
    )
    mu = math.hypot(
        first.privacy(claim, len(columns), claim.min_clients).mu,
        mechanism.privacy(begun.claim, len(columns), claim.min_clients).mu,
    )
    both = {form: count + one.report_bytes[form] for form, count in option.report_bytes.items()}
    epsilon = discrete_epsilon(mu, total.noise_delta, 2 * MAX_SLACK)
    return replace(option, report_bytes=both, epsilon=epsilon)


_KEPT = ("dimension", "frame_seed", "frame_digest", "label", "levels", "covariance")

PLAN = KindPlan(plan_two_rounds)
