"""Builds the task of a specification: calibrates its mechanism, checks it, and binds it by its hash."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from lintra_analysis.kinds.coalition import usual_claim
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.planned import MOST_CLIENTS
from lintra_analysis.kinds.verified import in_words
from lintra_analysis.releases.columns import INTERCEPT
from lintra_analysis.spec.specification import (
    ColumnSpecification,
    Specification,
    StreamSpecification,
    WindowsSpecification,
)
from lintra_analysis.spec.stream import gain_of, usual_damping
from lintra_analysis.spec.verification import Verification, is_small, max_rejected, may_be_verified, measurement_of
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.sealing import HYBRID, SuiteName
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, first_complaint, fraction, real, real_below
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.missing_reports import least_max_missing, organisations_max_missing
from lintra_protocol.fields.schema import Column
from lintra_protocol.fields.windows import MAX_STREAM, Stream, Windows
from lintra_protocol.privacy.statement import MAX_SLACK, Claim
from lintra_protocol.privacy.study import Study
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task

SALT_BYTES = 32


def _no_tokens(_servers: Sequence[ServerEntry]) -> tuple[str, ...]:
    raise InvalidTaskError("client_auth: these keys make no tokens")


@dataclass(frozen=True)
class PartyKeys:
    """The public keys that a task names beside those of its servers, in base64url."""

    author: str  #: signs the task
    identity: str  #: the analyzer's, signs its requests
    sealing: Mapping[SuiteName, str]  #: by suite, what servers seal their sketch shares to
    #: returns the hashes of the keys with which servers check the author's tokens
    token_commitments: Callable[[Sequence[ServerEntry]], tuple[str, ...]] = field(default=_no_tokens, repr=False)


def build_task(
    specification: Specification, servers: Sequence[ServerEntry], keys: PartyKeys, now: int, random_bytes: RandomBytes
) -> Task:
    """Calibrate the mechanism, fill in keys and times, and check the result as every other party will.

    `servers` are in the order that gives them their indices; `keys` are the analyzer's public keys. `now` is in seconds
    since the epoch; the task begins at the start of this time unit. `random_bytes` are for the salt and, if rows are
    projected, the seed of their frame.

    Raises:
        InvalidTaskError: the parts do not fit together; the detail names the field.
        RowUnderfilledError: the minimum cohort leaves a row of the sketch without honest clients.
        FalseClaimError: the promise cannot be kept.
    """
    if INTERCEPT in [column.name for column in specification.columns]:
        raise InvalidTaskError(f"columns: the name {INTERCEPT!r} belongs to the intercept; choose another")
    if specification.verification is None and may_be_verified(specification):
        # What the author did not ask for must not be why a task is refused.
        with suppress(LintraError):
            task = _built(specification, servers, keys, now, random_bytes, "norm")
            if is_small(task):
                return task
    return _built(specification, servers, keys, now, random_bytes, specification.verification or "none")


def _built(
    asked: Specification,
    servers: Sequence[ServerEntry],
    keys: PartyKeys,
    now: int,
    random_bytes: RandomBytes,
    verification: Verification,
) -> Task:
    """Build a task whose reports are verified or not, and check it (see `build_task`)."""
    not_before = now // asked.time_precision
    not_after = -(-(now + asked.duration_seconds) // asked.time_precision)
    try:
        windows = _windows(asked)
        context = context_of(asked, random_bytes, len(servers))
        measured = measurement_of(asked, context, verification)
        claim, mechanism = measured.claim, measured.mechanism
        if asked.mechanism.clip_count_weight not in (None, "0") and mechanism.clip_count_weight == "0":
            raise InvalidTaskError(f"clip_count_weight: {mechanism.kind} cannot count clipped rows; leave it out")
        if asked.mechanism.rounding == "dithered" and mechanism.rounding == "nearest":
            raise InvalidTaskError(f"rounding: {mechanism.kind} cannot dither what it rounds; leave it out")
        task = Task(
            salt=base64url(random_bytes(SALT_BYTES)),
            purpose=asked.purpose,
            author_key=keys.author,
            servers=tuple(servers),
            analyzer=AnalyzerEntry(identity_key=keys.identity, sealing_key=keys.sealing[asked.suite]),
            columns=tuple(context.columns),
            mechanism=mechanism,
            contributors=context.contributors,
            claim=claim,
            max_clients=context.max_clients,
            max_missing=asked.max_missing or _max_missing(asked, claim, context.max_clients),
            time_precision=asked.time_precision,
            batches="single" if windows is None else "windowed",
            windows=windows,
            not_before=not_before,
            not_after=not_after if windows is None else not_before + windows.units,
            client_auth=asked.client_auth,
            token_keys=keys.token_commitments(servers) if asked.client_auth == "token" else (),
            share_form=asked.share_form,
            verification=verification,
            max_rejected=max_rejected(asked, verification),
            noise=asked.noise_by,
            suite=asked.suite,
            retention=asked.retention,
            study=_study(asked),
        )
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None
    task.check()
    return task


def context_of(
    asked: Specification, random_bytes: RandomBytes, num_servers: int
) -> CalibrationContext[MechanismSpecification]:
    """Return what the mechanism of a specification is calibrated for, defaults of the claim filled in.

    Raises:
        InvalidTaskError: numbers may be missing, organisations contribute or servers add the noise where they cannot.
    """
    claim, columns = claim_of(asked), columns_of(asked)
    windows = _windows(asked)
    missing = [column.name for column in asked.columns if column.missing and column.kind != "category"]
    if missing and not asked.mechanism.takes_missing:
        raise InvalidTaskError(
            f"columns: {missing[0]!r} may be missing, and {asked.mechanism.kind} cannot leave rows out: missing "
            "numbers would stand at their centres; ask for second_moment or sum, or leave the word out"
        )
    contributors = _contributors(asked, missing)
    _check_server_noise(asked)
    return CalibrationContext(
        options=asked.mechanism,
        claim=claim,
        columns=columns,
        row_bound=asked.row_bound,
        max_clients=asked.max_clients or min(10 * asked.min_clients, MOST_CLIENTS),
        random_bytes=random_bytes,
        num_servers=num_servers,
        noise=asked.noise_by,
        merges=asked.windows is not None and asked.windows.max_merge > 1,
        stream=None if windows is None else windows.matrix,
        missing=missing,
        contributors=contributors,
    )


def warnings_of(task: Task) -> list[str]:
    """Return what an analyst should know about a valid task before it starts, in plain words."""
    mechanism = task.mechanism
    remark = mechanism.remark(task.privacy(task.claim.min_clients))
    found = [remark] if remark else []
    found += KINDS[mechanism.kind].warnings(task, mechanism)
    if task.stream is not None:
        found += gain_of(task.stream).lines(task.stream)
    elif task.windows is not None:
        together = task.worst_together()
        found.append(
            f"epsilon {task.claim.epsilon} is that of one window; all {task.reports_per_source} reports that one "
            f"source may send have epsilon {together.epsilon:.4g} at delta {together.delta:g} together"
        )
    if task.max_merge > 1:
        counted = (
            f", and a release is planned against {task.claim.max_corrupt_clients} corrupt reports, {task.max_merge} of "
            "each corrupt client"
        )
        found.append(
            f"up to {task.max_merge} windows in a row may be released together: that is in the second epsilon"
            + counted * (task.noise != "servers")
        )
    if task.noise == "servers":
        found.append(
            f"every server adds the noise: with {task.num_servers} of them its variance is {task.num_servers} times "
            "that of a trusted curator, however many clients are corrupt; but reports carry none, so if all servers "
            "collude they see every row"
        )
    if task.verified is not None and task.shares_seen is not None:
        found.append(in_words(task.verified, task.measurement, task.shares_seen.price(fraction(task.claim.epsilon))))
        found.append(
            f"a batch closes with {fewest_reports(task):,} reports, so that {task.claim.min_clients:,} are left if "
            "as many are rejected as may be; max_rejected says how many, and verification none closes without proofs"
        )
    if task.suite != HYBRID:
        found.append("the classical suite does not protect against a later quantum computer")
    return found


def _study(asked: Specification) -> Study | None:
    """Return the study that was asked for, or that both rounds of a mechanism make together.

    Organisations are charged for each round by itself.
    """
    share = asked.mechanism.first_share
    if asked.study is not None and share is not None:
        raise InvalidTaskError("study: two rounds are a study of their own; leave it out")
    if asked.study is not None:
        return Study(**asked.study.model_dump())
    if share is None or asked.contributors is not None:
        return None
    total = claim_of(asked)
    return Study(
        epsilon=total.epsilon,
        delta=total.delta,
        delta_coalition=total.delta_coalition,
        share=share,
        epsilon_alone=total.epsilon_alone,
    )


def _contributors(asked: Specification, missing: Sequence[str]) -> Contributors | None:
    """Return the organisations that were asked for."""
    if asked.contributors is None:
        return None
    if not asked.mechanism.takes_contributors:
        raise InvalidTaskError(
            "contributors: organisations can be asked for sum, second_moment, range_finder, histogram or ron_gauss, "
            f"not {asked.mechanism.kind}"
        )
    return asked.contributors.contributors(asked.neighbours, missing=bool(missing))


def _check_server_noise(asked: Specification) -> None:
    """Refuse servers that add the noise where they cannot."""
    if asked.epsilon_alone is not None and asked.noise_by != "both":
        raise InvalidTaskError("epsilon_alone: it needs noise both; leave it out")
    if asked.noise == "both" and not asked.mechanism.takes_floor:
        raise InvalidTaskError(f"noise both: {asked.mechanism.kind} has no bound alone so far; use clients")
    if asked.noise_by != "servers":
        return
    if not asked.mechanism.takes_server_noise:
        raise InvalidTaskError(
            f"noise: servers add it to sum, osnap, second_moment or histogram, not to {asked.mechanism.kind}; use "
            "clients"
        )
    if asked.contributors is not None or asked.study is not None:
        raise InvalidTaskError("noise: that of organisations and of studies is their own so far; use clients")


def _max_missing(asked: Specification, claim: Claim, max_clients: int) -> Real:
    if asked.contributors is not None:
        return real_below(organisations_max_missing(claim.min_clients, max_clients))
    return real_below(least_max_missing(claim))


def _windows(asked: Specification) -> Windows | None:
    """Return the windows that were asked for, in units of time."""
    if asked.windows is None:
        return None
    if asked.mechanism.num_rounds > 1 or asked.study is not None:
        raise InvalidTaskError("windows: a task with a second round, or in a study, is released once")
    unit = asked.time_precision
    for name in ("window_seconds", "grace_seconds"):
        if getattr(asked.windows, name) % unit:
            raise InvalidTaskError(f"windows.{name}: a multiple of time_precision, {unit} seconds")
    stream = asked.windows.stream
    if stream is not None and asked.noise_by != "servers":
        raise InvalidTaskError("windows.stream: servers remember only noise of their own; use noise servers")
    return Windows(
        window=asked.windows.window_seconds // unit,
        grace=asked.windows.grace_seconds // unit,
        max_windows=asked.windows.max_windows,
        reports_per_source=asked.reports_per_source,
        max_merge=asked.windows.max_merge,
        stream=None if stream is None else _stream(asked.windows, stream, asked.reports_per_source),
    )


def _stream(windows: WindowsSpecification, asked: StreamSpecification, reports: int) -> Stream:
    """Return the stream that was asked for, with the usual damping if none was given."""
    damping = asked.damping
    if damping is None:
        usual = usual_damping(min(windows.max_windows, MAX_STREAM), reports, fraction(asked.blur), asked.memory)
        damping = real(float(usual))
        if not usual:
            raise InvalidTaskError(
                f"windows.stream: with {reports} of {windows.max_windows} windows for each source nothing is gained; "
                "leave it out, or lower reports_per_source"
            )
    return Stream(damping=damping, blur=asked.blur, memory=asked.memory)


def claim_of(asked: Specification) -> Claim:
    """Return the promise that was asked for, defaults filled in; of two rounds together, if there are two.

    Raises InvalidTaskError if no promise is of this kind; the detail names the field.
    """
    # The rounding to integers takes a part of epsilon (`discrete_mu`), which has to leave something.
    if 0 < fraction(asked.epsilon) <= 2 * fraction(real(MAX_SLACK)):
        raise InvalidTaskError(f"epsilon: a promise needs more than {2 * MAX_SLACK}, and this is {asked.epsilon}")
    try:
        return usual_claim(
            epsilon=asked.epsilon,
            delta=asked.delta,
            neighbours=asked.neighbours,
            min_clients=asked.min_clients,
            max_corrupt_clients=_corrupt_clients(asked),
            threat=asked.threat,
            delta_coalition=asked.delta_coalition,
            is_sketch=asked.mechanism.is_sketch,
            reports_per_source=asked.reports_per_source,
            max_merge=asked.windows.max_merge if asked.windows else 1,
            noise=asked.noise_by,
            epsilon_alone=asked.epsilon_alone,
        )
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error).removeprefix("document: ")) from None


def _corrupt_clients(asked: Specification) -> int | None:
    """Return t: as asked, of organisations all but one, else None for the usual part."""
    if asked.max_corrupt_clients is None and asked.contributors is not None:
        return asked.min_clients - 1
    return asked.max_corrupt_clients


def columns_of(asked: Specification) -> tuple[Column, ...]:
    """Return the columns of the task that was asked for."""
    own_units = KINDS[asked.mechanism.kind].own_units
    return tuple(as_asked(column, own_units=own_units) for column in asked.columns)


_AS_ASKED = {"name", "lower", "upper", "unit", "kind", "levels"}


def as_asked(asked: ColumnSpecification, *, own_units: bool = False) -> Column:
    """Return a column as it was asked for; raise pydantic's ValidationError if there is no such column."""
    if own_units:
        kept = asked.model_dump(include=_AS_ASKED) | {"code_book": asked.code_book}
        return Column(**kept, center=asked.center or "0", scale=asked.scale or "1")
    lower, upper = float(fraction(asked.lower)), float(fraction(asked.upper))
    center = asked.center if asked.center is not None else real((lower + upper) / 2)
    # Bounds in the wrong order are refused by `Column`, in its own words; here they only must not divide it.
    scale = asked.scale if asked.scale is not None else real(max((upper - lower) / 2, 0)) if upper > lower else "1"
    kept = asked.model_dump(include=_AS_ASKED) | {"code_book": asked.code_book}
    return Column(**kept, center=center, scale=scale)
