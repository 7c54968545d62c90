"""The refusals that another party can cause, each with a token that never changes once released.

`ValueError` means that the caller's code is wrong; a `LintraError` is somebody else's doing and travels as a problem
document (see `problems`). The first line of each docstring is the title that a user reads.
"""


def install_command(extra: str) -> str:
    """Return what somebody types to get an extra; no registry has Lintra yet, so it is typed in a clone."""
    return f"in a clone of the repository type pip install '.[{extra}]'"


class LintraError(Exception):
    """The request was refused."""

    token = "refused"
    retryable = False
    exit_status = 1

    def __init__(self, detail: str = "") -> None:
        """Keep the detail: numbers and identifiers, never rows or shares."""
        super().__init__(detail)
        self.detail = detail

    @classmethod
    def title(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def __str__(self) -> str:
        return f"{self.title()} {self.detail}".strip()


class InvalidMessageError(LintraError):
    """The message is malformed."""

    token = "invalid_message"


class UnknownResourceError(LintraError):
    """There is no such resource."""

    token = "not_found"


class MethodNotAllowedError(LintraError):
    """The resource does not support this method."""

    token = "method_not_allowed"


class UnsupportedMediaTypeError(LintraError):
    """The media type of the body is not the one this resource takes."""

    token = "unsupported_media_type"


class MessageTooLargeError(LintraError):
    """The body is larger than this resource takes."""

    token = "message_too_large"


class HeadTooLargeError(LintraError):
    """The request line and the headers are larger than this service takes."""

    token = "head_too_large"


class InternalError(LintraError):
    """Something went wrong inside; nothing was released."""

    token = "internal"
    retryable = True


class UnavailableError(LintraError):
    """The service cannot answer now."""

    token = "unavailable"
    retryable = True


class OverloadedError(LintraError):
    """The service has more to do than it takes on."""

    token = "overloaded"
    retryable = True


class UnauthorizedError(LintraError):
    """The request does not prove who sent it."""

    token = "unauthorized"


class ForbiddenError(LintraError):
    """The sender is known and may not do this."""

    token = "forbidden"


# --- the task -------------------------------------------------------------------------------------------------


class InvalidTaskError(LintraError):
    """The task definition is inconsistent."""

    token = "invalid_task"


class UnsupportedFeatureError(LintraError):
    """The task asks for something that this version does not do."""

    token = "unsupported_feature"


class FalseClaimError(LintraError):
    """The task promises more privacy than its parameters give."""

    token = "false_claim"


class PolicyRefusedError(LintraError):
    """The task is valid, but local policy does not allow it."""

    token = "policy_refused"


class LedgerRefusedError(LintraError):
    """The ledger of this device does not let the report leave."""

    token = "ledger_refused"


class UnknownTaskError(LintraError):
    """There is no such task here."""

    token = "unrecognized_task"


class TaskConflictError(LintraError):
    """The servers do not hold the same definition of this task."""

    token = "task_conflict"


class TaskNotStartedError(LintraError):
    """The task does not accept reports yet."""

    token = "task_not_started"
    retryable = True


class TaskEndedError(LintraError):
    """The task no longer accepts reports."""

    token = "task_ended"


# --- rows and reports -----------------------------------------------------------------------------------------


class InvalidRowError(LintraError):
    """The row does not fit the task's columns."""

    token = "invalid_row"

    def __init__(self, detail: str = "", *, row: int | None = None, column: str | None = None) -> None:
        """Keep the detail, and where the value stands that does not fit: its row, from 0, and its column."""
        super().__init__(detail)
        self.row = row
        self.column = column


class InvalidTableError(InvalidRowError):
    """The file cannot be used as it is."""

    token = "invalid_table"

    def __init__(self, detail: str = "", *, asks: bool = False) -> None:
        """Keep the detail; `asks` says that only the owner of the file can answer, so that a command ends with 2."""
        super().__init__(detail)
        self.exit_status = 2 if asks else 1


class TokenInvalidError(LintraError):
    """The token is not one of this task."""

    token = "token_invalid"


class TokenSpentError(LintraError):
    """The token was used for another report."""

    token = "token_spent"


class OutdatedKeyError(LintraError):
    """The report is sealed to a key that this server no longer holds; fetch its keys again."""

    token = "outdated_key"
    retryable = True


class DecryptFailedError(LintraError):
    """The sealed share does not open in this context."""

    token = "decrypt_failed"


class CommitmentMismatchError(LintraError):
    """The share is not the one that the report identifier commits to."""

    token = "commitment_mismatch"


class ReportTooEarlyError(LintraError):
    """The report's time lies before the task's window."""

    token = "report_too_early"
    retryable = True


class ReportTooLateError(LintraError):
    """The report's time lies after the task's window."""

    token = "report_too_late"


# --- batches and releases -------------------------------------------------------------------------------------


class UnknownBatchError(LintraError):
    """The task has no such batch."""

    token = "batch_unknown"


class BatchOpenError(LintraError):
    """The batch still collects reports."""

    token = "batch_open"
    retryable = True


class BatchClosedError(LintraError):
    """The batch no longer collects reports."""

    token = "batch_closed"


class InventoryMismatchError(LintraError):
    """An inventory does not match its list of reports or its signature."""

    token = "inventory_mismatch"


class CohortConflictError(LintraError):
    """The servers did not freeze the same cohort, or another one was frozen here before."""

    token = "cohort_conflict"


class CohortTooSmallError(LintraError):
    """There are fewer reports than the task's minimum."""

    token = "cohort_too_small"
    retryable = True


class RowUnderfilledError(LintraError):
    """Too few clients share a row of the sketch."""

    token = "row_underfilled"


class TooManyMissingError(LintraError):
    """Too many reports that this server holds are missing elsewhere."""

    token = "too_many_missing"


class NonceMismatchError(LintraError):
    """A revealed nonce is not the one that the inventory committed to."""

    token = "nonce_mismatch"


class ChecksMismatchError(LintraError):
    """The servers did not check the same reports, or did not come to the same verdict."""

    token = "checks_mismatch"


class TooManyRejectedError(LintraError):
    """More reports failed their check than the task allows; nothing of the batch will be released."""

    token = "too_many_rejected"


class SeedMismatchError(LintraError):
    """The parties did not derive the same late seed."""

    token = "seed_mismatch"


class AlreadyReleasedError(LintraError):
    """These reports were released before, in another request; a second release does not exist."""

    token = "already_released"


class AbandonedError(LintraError):
    """The batch was abandoned; nothing of it will be released."""

    token = "abandoned"


class InvalidReleaseError(LintraError):
    """The servers' answers do not make a release."""

    token = "invalid_release"


class InvalidAnalysisError(LintraError):
    """The analysis does not fit this release."""

    token = "invalid_analysis"
