"""What a kind permits: clip counters, and organisations as contributors."""

from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim


def check_setting(mechanism: Mechanism, claim: Claim, setting: Setting) -> None:
    """Refuse a bound, a clip counter or contributors that have no proof, whatever the grid is.

    Raises:
        InvalidTaskError: in words.
    """
    weight = mechanism.clip_count_weight
    if fraction(mechanism.row_bound) <= 0:
        raise InvalidTaskError(f"row_bound {mechanism.row_bound} is not positive")
    if mechanism.rounding == "dithered" and "dither" not in mechanism.allows:
        raise InvalidTaskError(f"rounding: {mechanism.kind} cannot dither what it rounds; use 'nearest'")
    if weight != "0" and "clip counter" not in mechanism.allows:
        raise InvalidTaskError(f"clip_count_weight: {mechanism.kind} cannot count clipped rows; use 0")
    if not 0 <= fraction(weight) <= 1:
        raise InvalidTaskError(f"clip_count_weight lies between 0 and 1, got {weight}")
    if setting.contributors is not None:
        _check_contributors(mechanism, claim, setting.contributors)
    elif claim.neighbours == "add-remove":
        raise InvalidTaskError(
            "neighbours 'add-remove' are for contributors: a client that sends a single row is visible, and "
            "takes its noise along; use 'replace-one' or 'zero-out'"
        )


def _check_contributors(mechanism: Mechanism, claim: Claim, contributors: Contributors) -> None:
    rows = contributors.rows_per_person
    if "contributors" not in mechanism.allows:
        raise InvalidTaskError(f"contributors: organisations cannot contribute to {mechanism.kind}")
    if mechanism.clip_count_weight != "0":
        raise InvalidTaskError("clip_count_weight: contributions do not count clipped rows; use 0")
    if contributors.squared_person_bound is not None:
        if "persons" not in mechanism.allows:
            raise InvalidTaskError(
                f"person_bound: {mechanism.kind} clips the rows of a person one by one; leave it out"
            )
        if contributors.squared_person_bound > rows * fraction(mechanism.row_bound) ** 2:
            raise InvalidTaskError(
                f"person_bound {contributors.person_bound} is more than row_bound {mechanism.row_bound} times the "
                f"root of {rows} rows, which is all that a person needs"
            )
    if contributors.count == "exact" and claim.neighbours == "add-remove":
        raise InvalidTaskError("an exact count tells add-remove neighbours apart: use count 'noisy'")
    if contributors.count == "exact" and claim.neighbours == "replace-one" and rows > 1:
        raise InvalidTaskError(
            f"a person of up to {rows} rows may be replaced by one of fewer, which shows in an "
            "exact count: use count 'noisy', or neighbours 'zero-out'"
        )
    if contributors.count == "noisy" and mechanism.noisy_count_advice:
        raise InvalidTaskError(f"contributors: {mechanism.noisy_count_advice}")


def check_count(count: str, setting: Setting) -> None:
    """Refuse a noisy count of the mechanism's own where organisations contribute.

    Raises:
        InvalidTaskError: in these words.
    """
    if setting.contributors is not None and count == "noisy":
        raise InvalidTaskError("count: of contributors it stands in their own field; leave the mechanism's out")
