"""A server played by the audit, which has its key and can sign any statement."""

from collections.abc import Sequence

import numpy as np

from lintra_audit.verify.actors import Actors, CheckShares
from lintra_audit.verify.one_word_leak import Pair, pair_of
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, inventories_hash, inventory_of, sign
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.report.report import Report, checks_of, share_words
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.verification import BodyHash, check_share_of, parameters_of, verdict_of
from lintra_protocol.verification.points import Points


class AdversarialServer:
    """One server of an exchange, and the reports that it holds."""

    def __init__(self, exchange: Actors, server: int, reports: Sequence[Report]) -> None:
        """Hold reports, and draw both nonces."""
        self._task, self._server, self._key = exchange.task, server, exchange.places[server].key
        self._reports = sorted(reports, key=lambda report: report.report_id)
        self._nonce, self._matrix_nonce = system_randomness(32), system_randomness(32)
        self.ids = ReportIds.of(report.report_id for report in reports)

    def inventory(self) -> Signed[Inventory]:
        """List the reports, and commit to both nonces."""
        nonces = self._nonce, self._matrix_nonce
        return sign(
            self._key,
            inventory_of(self._task, 0, self._server, self.ids, nonces[0], self._task.not_before, 1, None, nonces[1]),
        )

    def cohort(self, inventories: Sequence[Signed[Inventory]], nonce: bytes | None = None) -> Signed[Cohort]:
        """Freeze what is listed, and reveal the nonce, or another one."""
        return sign(
            self._key,
            Cohort(
                task_id=self._task.task_id, batch=0, server=self._server, count=len(self.ids),
                root=base64url(self.ids.root), inventories=inventories_hash(tuple(inventories)),
                nonce=base64url(nonce or self._nonce), start=1,
            ),
        )  # fmt: skip

    def body(self, points: Points) -> bytes:
        """Return the check shares that an honest server would compute."""
        payloads = b"".join(report.shares[self._server][BLIND_BYTES + 1 :] for report in self._reports)
        return checks_of(self._task, self._server, payloads, points).tobytes()

    def pair(self, place: int, point: int) -> Pair:
        """Return this server's shares of what a report of one word opens in the first field, at any point."""
        payload = self._reports[place].shares[self._server][BLIND_BYTES + 1 :]
        return pair_of(parameters_of(self._task), payload, point)

    def lies_about(self, body: bytes, places: Sequence[int]) -> bytes:
        """Return a body that is false for some reports, given by their places in the cohort."""
        rows = np.frombuffer(body, np.uint8).reshape(-1, parameters_of(self._task).check_bytes).copy()
        rows[list(places), 0] ^= 1
        return rows.tobytes()

    def signed(self, cohort: Cohort, seed: bytes, body: bytes) -> Signed[CheckShare]:
        """Sign a body."""
        whole = BodyHash(len(body))
        whole.add(body)
        return sign(self._key, check_share_of(self._task, 0, self._server, cohort, seed, whole.digest()))

    def verdict(self, accepted: ReportIds, shares: CheckShares) -> Signed[Verdict]:
        """Sign any verdict."""
        rejected = len(self.ids) - len(accepted)
        messages = [share.message for share in shares]
        own = verdict_of(self._task, 0, self._server, accepted, rejected, messages, self._matrix_nonce)
        return sign(self._key, own)

    def words(self, accepted: ReportIds) -> RingArray:
        """Return this server's shares of the accepted reports, in the order of the cohort, shape `(n, w)`."""
        kept = set(accepted)
        mine = [report for report in self._reports if report.report_id in kept]
        return np.stack([
            share_words(self._task, self._server, report.shares[self._server][BLIND_BYTES + 1 :]) for report in mine
        ])  # fmt: skip


def nonces_of(cohorts: Sequence[Signed[Cohort]]) -> list[bytes]:
    """Return the nonces that cohorts reveal, in server order."""
    return [parse_base64url(signed.message.nonce) for signed in cohorts]
