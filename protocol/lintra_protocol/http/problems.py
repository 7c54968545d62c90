"""Errors as problem documents (RFC 9457): the only module that knows HTTP statuses."""

from collections.abc import Iterator, Mapping

from lintra_protocol import errors
from lintra_protocol.errors import LintraError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:lintra:problem:"

STATUS: dict[type[LintraError], int] = {
    errors.LintraError: 400,
    errors.InvalidMessageError: 400,
    errors.UnknownResourceError: 404,
    errors.MethodNotAllowedError: 405,
    errors.UnsupportedMediaTypeError: 415,
    errors.MessageTooLargeError: 413,
    errors.HeadTooLargeError: 431,
    errors.InternalError: 500,
    errors.UnavailableError: 503,
    errors.OverloadedError: 429,
    errors.UnauthorizedError: 401,
    errors.ForbiddenError: 403,
    errors.InvalidTaskError: 400,
    errors.UnsupportedFeatureError: 400,
    errors.FalseClaimError: 400,
    errors.PolicyRefusedError: 403,
    errors.LedgerRefusedError: 403,
    errors.UnknownTaskError: 404,
    errors.TaskConflictError: 409,
    errors.TaskNotStartedError: 409,
    errors.TaskEndedError: 409,
    errors.InvalidRowError: 400,
    errors.InvalidTableError: 400,
    errors.TokenInvalidError: 403,
    errors.TokenSpentError: 403,
    errors.OutdatedKeyError: 409,
    errors.DecryptFailedError: 400,
    errors.CommitmentMismatchError: 400,
    errors.ReportTooEarlyError: 409,
    errors.ReportTooLateError: 409,
    errors.UnknownBatchError: 404,
    errors.BatchOpenError: 409,
    errors.BatchClosedError: 409,
    errors.InventoryMismatchError: 409,
    errors.CohortConflictError: 409,
    errors.CohortTooSmallError: 409,
    errors.RowUnderfilledError: 409,
    errors.TooManyMissingError: 409,
    errors.NonceMismatchError: 409,
    errors.ChecksMismatchError: 409,
    errors.TooManyRejectedError: 409,
    errors.SeedMismatchError: 409,
    errors.AlreadyReleasedError: 409,
    errors.AbandonedError: 410,
    errors.InvalidReleaseError: 502,
    errors.InvalidAnalysisError: 400,
}


def all_errors(base: type[LintraError] = LintraError) -> Iterator[type[LintraError]]:
    """Yield `LintraError` and every class below it."""
    yield base
    for subclass in base.__subclasses__():
        yield from all_errors(subclass)


def to_problem(error: LintraError, **members: str | None) -> dict[str, str | int | bool]:
    """Return the problem document of an error; `members` add `instance`, `task`, `batch` where they are known."""
    known = {name: value for name, value in members.items() if value is not None}
    return {
        "type": TYPE_PREFIX + error.token,
        "title": error.title(),
        "status": STATUS[type(error)],
        "detail": error.detail,
        "retryable": error.retryable,
        **known,
    }


def from_problem(document: Mapping[str, object]) -> LintraError:
    """Rebuild the error that a peer raised; an unknown type becomes a plain `LintraError` with the peer's words."""
    kind = str(document.get("type", "")).removeprefix(TYPE_PREFIX)
    detail = str(document.get("detail", ""))
    by_token = {error.token: error for error in all_errors()}
    if kind not in by_token:
        return LintraError(f"{document.get('title', 'unknown problem')} {detail}".strip())
    return by_token[kind](detail)
