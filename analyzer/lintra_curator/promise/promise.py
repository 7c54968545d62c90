"""What tests that are not yet moved call the rules of rows, and a statement."""

from lintra_curator.promise.claim import point_statement as Promise  # noqa: N812
from lintra_curator.promise.rows import bounded_rows

__all__ = ["Promise", "bounded_rows"]
