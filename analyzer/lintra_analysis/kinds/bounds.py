"""How large a task may be asked for: known from a few integers, before anything of that size is made."""

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.task_terms import MAX_WORDS

MAX_SKETCH_WORDS = 2**26
"""Words of a released sketch: half a gibibyte, in every server and in the analyzer."""


def require_size(mechanism: AnyMechanism, num_columns: int) -> None:
    """Check the sizes of a report and of a release, without making either.

    Raises:
        InvalidTaskError: too large; the detail has both numbers.
    """
    words = mechanism.num_words(num_columns)
    if words > MAX_WORDS:
        raise InvalidTaskError(f"a report of {words} words exceeds {MAX_WORDS}; use a sketch, or fewer dimensions")
    released = mechanism.num_rows * mechanism.sketch_words(num_columns)
    if released > MAX_SKETCH_WORDS:
        raise InvalidTaskError(f"a sketch of {released} words exceeds {MAX_SKETCH_WORDS}; ask for fewer rows")
