"""What a task decides for its mechanism: whose reports there are, and who adds the noise."""

from dataclasses import dataclass
from typing import Literal

from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.noise.clipping import squared_integer_bound
from lintra_protocol.privacy.statement import NoiseBy
from lintra_protocol.privacy.stream_matrix import StreamMatrix


@dataclass(frozen=True)
class Setting:
    """Who sends reports, and who adds noise to them; a mechanism's own document says neither.

    Attributes:
        contributors: the organisations that send reports, as the task says; None where every report is one row.
        noising_servers: N where every server adds the noise to its sketch share; 0 where clients add it to their
            reports (docs/proofs/servers.md#noise-by-servers).
        floor_servers: N where every server adds a floor of noise to that of clients (#two-layers); 0 for one layer.
        merges: whether a release may hold several reports of a source.
        stream: how the noise of windows hangs together; None where it is independent.
        released_draws: how many draws of noise a number carries that is read; None for what is planned.
    """

    contributors: Contributors | None = None
    noising_servers: int = 0
    floor_servers: int = 0
    merges: bool = False
    stream: StreamMatrix | None = None
    released_draws: float | None = None

    @property
    def rows_of_stream(self) -> int:
        """Return how many windows are promised together; 1 where each is promised alone."""
        return 1 if self.stream is None else self.stream.rows

    @property
    def count(self) -> Literal["exact", "noisy"] | None:
        """Return how an organisation's rows are counted; None where every report is one row."""
        return None if self.contributors is None else self.contributors.count

    @property
    def rows_per_person(self) -> int:
        """Return r, the most rows of a person in one organisation; 1 where every report is one row."""
        return 1 if self.contributors is None else self.contributors.rows_per_person

    @property
    def rows_per_report(self) -> int:
        """Return the most rows of a report."""
        return 1 if self.contributors is None else self.contributors.max_rows

    @property
    def squared_places(self) -> int:
        """Return s^2: a person's rows in s organisations may all change at once, each in the same way."""
        return 1 if self.contributors is None else self.contributors.organisations_per_person**2

    @property
    def persons(self) -> str:
        """Return in words to whom the promise is made; nothing where it is made to a client and its row."""
        return "" if self.contributors is None else self.contributors.persons

    @property
    def senders(self) -> str:
        """Return in words who sends reports."""
        return "clients" if self.contributors is None else f"organisations of {self.contributors.max_rows} rows"

    def person_bound(self, squared_bound: int, fraction_bits: int) -> int:
        """Return T, the largest sum of squared norms of a person's rows in integer steps.

        Args:
            squared_bound: that of one row.
            fraction_bits: of the grid.
        """
        if self.contributors is None or self.contributors.person_bound is None:
            return self.rows_per_person * squared_bound
        return squared_integer_bound(fraction(self.contributors.person_bound), fraction_bits)

    @property
    def noise(self) -> NoiseBy:
        """Return who adds the noise."""
        return "servers" if self.noising_servers else "both" if self.floor_servers else "clients"

    def draws(self, num_reports: int) -> float:
        """Return how many draws of a report's noise a released number carries that adds up so many reports.

        Of a window of a stream it is what the noisiest has, unless it is known which is read.
        """
        if self.released_draws is not None:
            return self.released_draws
        each = 1 if self.stream is None else self.stream.window_variance
        return self.noising_servers * each or num_reports

    def honest_draws(self, honest_reports: int) -> int:
        """Return how many of them nobody knows, if so many reports are honest: these, or that of one server."""
        return 1 if self.noising_servers else honest_reports
