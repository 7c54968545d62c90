"""Who adds the noise of a release: every client to its report, or every server to its sketch share.

A task says which, and tells its mechanism; the mechanism's own document never does. Where servers add it a released
number carries N draws of noise whatever the number of reports, and the promise rests on one of them, that of an honest
server (docs/explanation/privacy.md#noise-by-servers).
"""

from typing import Self

import numpy as np
from pydantic import PrivateAttr

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.clip_count import ClipCounter


class Noised(ClipCounter):
    """A mechanism as far as it knows who adds its noise."""

    _noising_servers: int = PrivateAttr(default=0)

    @property
    def servers_may_noise(self) -> bool:
        """Whether a task with this mechanism may leave the noise to its servers."""
        return False

    @property
    def noising_servers(self) -> int:
        """Return N where every server adds the noise to its sketch share; 0 where clients add it to their reports."""
        return self._noising_servers

    def noised_by(self, noising_servers: int) -> Self:
        """Return this mechanism as that of a task whose servers, so many, add the noise; 0 for its clients."""
        if self._noising_servers == noising_servers:
            return self
        copy = self.model_copy()
        copy._noising_servers = noising_servers
        return copy

    def draws(self, reports: int) -> int:
        """Return how many draws of noise a released number carries that adds up so many reports."""
        return self._noising_servers or reports

    def draws_in_rows(self, row_counts: IntArray) -> IntArray:
        """Return the same for every row, shape `(m,)`, from the reports in each."""
        return np.full_like(row_counts, self._noising_servers) if self._noising_servers else row_counts

    def honest_draws(self, honest_reports: int) -> int:
        """Return how many of them nobody knows, of whose reports so many are honest: these, or one server's."""
        return 1 if self._noising_servers else honest_reports
