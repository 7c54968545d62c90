"""Writing the certificate of a release that was fully checked."""

from decimal import Decimal

from lintra_analysis.certificate.certificate import (
    Plausibility,
    RecordedClipping,
    RecordedNoise,
    RecordedWindow,
    ReleaseRecord,
    ServerPart,
    SignedRecord,
    definition_hash,
    stated,
    values_hash,
)
from lintra_analysis.certificate.replay import recorded_verification
from lintra_analysis.kinds.decode import FALSE_ALARM, implausible_rows, implausible_totals, rows_of_a_report
from lintra_analysis.kinds.released_parts import clipped_rows
from lintra_analyzer.exchange.reconstruct import Reconstruction
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import real, rounded_up
from lintra_protocol.mechanisms.noise_law import summed_deviation
from lintra_protocol.messages.documents import Cohort, Signed, inventories_hash
from lintra_protocol.messages.documents import Inventory as InventoryMessage
from lintra_protocol.messages.verification import Verdict
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.privacy.windows import repeated
from lintra_protocol.task import Task


def certify(
    task: Task,
    batch: int,
    inventories: tuple[Signed[InventoryMessage], ...],
    cohorts: tuple[Signed[Cohort], ...],
    result: Reconstruction,
    key: SigningKey,
    now: int,
    verdicts: tuple[Signed[Verdict], ...] = (),
) -> SignedRecord:
    """Write and sign the record of a release that was fully checked; `verdicts` of a verified task."""
    cohort, judgement = result.cohort, result.cohort.judgement
    nonces = [signed.message.nonce for signed in cohorts]
    frozen = cohort.num_clients
    if judgement is not None:
        nonces, frozen = [signed.message.nonce for signed in verdicts], judgement.frozen.cohort.count
    parts = zip(task.servers, inventories, nonces, result.records, strict=True)
    record = ReleaseRecord(
        task_id=task.task_id,
        definition=definition_hash(task),
        batch=batch,
        mechanism=task.mechanism.kind,
        rows=task.mechanism.num_rows,
        words=task.sketch_words,
        cohort_root=base64url(cohort.root),
        num_clients=cohort.num_clients,
        seed=base64url(cohort.seed),
        inventories=inventories_hash(inventories),
        servers=tuple(
            ServerPart(
                server=share.server,
                identity_key=entry.identity_key,
                reports=inventory.message.count,
                left_out=inventory.message.count - frozen,
                lost=inventory.message.lost,
                witnessed=inventory.message.witnessed,
                nonce=nonce,
                remembered=share.remembered,
                sketch_share=share.sealed,
            )
            for entry, inventory, nonce, share in parts
        ),
        values=values_hash(result.sketch),
        privacy=stated(
            cohort.privacy, task.mechanism.remark(cohort.privacy), cohort.if_colluding, verified=judgement is not None
        ),
        noise=_noise(task, cohort.row_counts),
        plausibility=_plausibility(task, result.sketch, cohort.row_counts),
        clipped=_clipping(task, result.sketch, cohort.row_counts),
        verification=None if judgement is None else recorded_verification(task, judgement),
        window=_window(task, batch, cohort.first, cohort.privacy),
        analyzer_key=key.public_key,
        released_at=now,
    )
    return SignedRecord(record=record, signature=key.sign(record.kind, record.canonical()))


def _window(task: Task, batch: int, first: int | None, privacy: PrivacyStatement) -> RecordedWindow | None:
    if task.windows is None:
        return None
    group = task.group(batch, first)
    begins, ends = task.span(group[0])[0] * task.time_precision, task.span(batch)[1] * task.time_precision
    together = task.worst_together()
    most = min(len(group), task.reports_per_source)
    merged = None if first is None else stated(repeated(privacy, most, most), "all reports of one source in it", {})
    return RecordedWindow(
        begins=begins,
        ends=ends,
        reports_per_source=task.reports_per_source,
        together=stated(together, "everything that one source may send to this task", {}),
        first=first,
        of_one_source=merged,
    )


def _noise(task: Task, row_counts: IntArray) -> RecordedNoise:
    mechanism, measurement = task.mechanism, task.measurement
    exponent = mechanism.sigma_bits
    smallest, largest = int(row_counts.min()), int(row_counts.max())
    servers = task.num_servers * measurement.servers_deviation**2

    def deviation(row: int) -> float:
        draws = task.setting.draws(row)
        return 2.0**-exponent * summed_deviation(mechanism.sigma, draws, servers, rows_of_a_report(task))

    return RecordedNoise(
        sigma=mechanism.sigma,
        step_bits=exponent,
        step=rounded_up(Decimal(2) ** -exponent),
        smoothing=measurement.servers_deviation,
        servers=task.setting.noising_servers,
        fewest_reports=smallest,
        most_reports=largest,
        smallest_sd=rounded_up(deviation(smallest)),
        largest_sd=rounded_up(deviation(largest)),
    )


def _clipping(task: Task, sketch: IntArray, row_counts: IntArray) -> RecordedClipping | None:
    counted = clipped_rows(task, sketch, row_counts)
    if counted is None:
        return None
    return RecordedClipping(
        rows=real(counted.estimate),
        sd=rounded_up(counted.sd),
        upper_share=rounded_up(counted.upper_share),
        words=counted.words,
    )


def _plausibility(task: Task, sketch: IntArray, row_counts: IntArray) -> Plausibility:
    deviations, flagged = implausible_rows(task, sketch, row_counts)
    return Plausibility(
        deviations=rounded_up(deviations),
        false_alarm=rounded_up(FALSE_ALARM),
        flagged_rows=tuple(flagged),
        totals=tuple(implausible_totals(task, sketch, row_counts)),
    )
