"""Rows of uploads: in bulk and single, new and repeated, at a server and at a client; look-ups; one and two openers."""

import asyncio
from functools import cache

import bench_client
import bench_server
import bench_store
import bench_workers

from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.report.upload import MAX_REPORTS
from scale.figures import Asked, Measured, row
from scale.log_lines import LOG_LINES, log_lines

LARGEST_TABLE = 10**6
OPENED_AND_SIGNED = "ASGI that opens one seal, signs and answers"


@cache
def _bulk(asked: Asked) -> dict[str, float]:
    return bench_server.bulk(asked.of(bench_server.UPLOADS, least=6))


@cache
def _singles(asked: Asked) -> dict[str, float]:
    return bench_server.singles(asked.of(bench_server.SINGLES, least=200))


@cache
def _client(asked: Asked) -> dict[str, float]:
    bulk = asked.of(bench_client.BULK, least=2 * MAX_REPORTS)
    return asyncio.run(bench_client.costs(HYBRID, bulk, asked.of(bench_client.SINGLE, least=40)))


@cache
def _table(asked: Asked) -> dict[str, float]:
    return bench_store.table(asked.of(LARGEST_TABLE))


# --- a server ---------------------------------------------------------------------------------------------------------


@row("upload_bulk_server", "upload in blocks of 256, server, durable and answered", "us a report", 15)
def _bulk_server(asked: Asked) -> Measured:
    found = _bulk(asked)
    remark = f"cut, opened and checked {found['opened and checked']:.1f}"
    return Measured(found["new"], found["hpke"], "the HPKE opening", remark)


@row("repeated_bulk_server", "blocks of 256 again, server: looked up, not opened", "us a report", None)
def _repeated_bulk(asked: Asked) -> Measured:
    found = _bulk(asked)
    return Measured(found["repeated"], found["hpke"], "the HPKE opening, which is left out")


@row("token_bulk_server", "a token in bulk: its check, and what storing costs more", "us a report", 5)
def _token(asked: Asked) -> Measured:
    found = bench_server.token_cost(asked.of(bench_server.TOKEN_GROUPS, least=20))
    remark = f"without tokens storing takes {found['without']:.1f}"
    return Measured(found["check"] + found["with"] - found["without"], found["check"], "the check", remark)


@row("upload_single_server", "upload of one report, server, 64 at a time, durable and answered", "ms", 0.30)
def _single_server(asked: Asked) -> Measured:
    found = _singles(asked)
    remark = f"{found['openings']:.2f} times the HPKE opening of {1e-3 * found['hpke']:.3f}"
    return Measured(1e-3 * found["new"], 1e-3 * found["bare"], OPENED_AND_SIGNED, remark)


@row(
    "upload_single_openings",
    "upload of one report, server, in openings of its seal; the aim is .30 ms where one takes .063",
    "openings",
    4.8,
)
def _single_in_openings(asked: Asked) -> Measured:
    found = _singles(asked)
    return Measured(found["openings"], found["bare"] / found["hpke"], OPENED_AND_SIGNED)


@row("repeated_single_server", "upload of one report again, server, 64 at a time: looked up, not opened", "ms", 0.30)
def _repeated_single(asked: Asked) -> Measured:
    found = _singles(asked)
    floor = 1e-3 * (found["bare"] - found["hpke"])
    remark = f"{found['repeated'] / found['new']:.2f} times a new one"
    return Measured(1e-3 * found["repeated"], floor, "the floor of a new one without the opening", remark)


@row("log_line", "the line logged of each answer, JSON, which no other row contains", "us", None)
def _log_line(asked: Asked) -> Measured:
    found = log_lines(asked.of(LOG_LINES, least=400))
    remark = f"in the format for people {found['console']:.0f}"
    return Measured(found["json"], found["bare"], "a clock, JSON and a write", remark)


@row("lookup_alone", "one id looked up in the table of 10^6", "us", 1.2)
def _lookup(asked: Asked) -> Measured:
    found = _table(asked)
    remark = f"{found['bytes for each']:.0f} bytes an id"
    return Measured(found["us to ask for one alone"], found["us to ask a set of Python"], "a set of Python", remark)


@row("lookup_256", "ids looked up in groups of 256 in the table of 10^6", "us an id", 0.3)
def _lookup_many(asked: Asked) -> Measured:
    found = _table(asked)
    one_gather = found["us to gather one word of each"]
    return Measured(found["us to ask for one, in groups of 256"], one_gather, "NumPy reads one slot for each")


@row("openers_two", "single uploads: two openers and their gate over one process", "times", 1.7, at_least=True)
def _openers(asked: Asked) -> Measured:
    rounds = bench_workers.measured(2 if asked.quick else bench_workers.ROUNDS, asked.of(bench_workers.SLICE, least=50))
    found, ratios = bench_workers.middle(rounds), [each.ratio(2, each.alone) for each in rounds]
    remark = (
        f"CPU ms an upload: one process {found.alone:.2f}, opener {found.opener:.2f}, gate {found.gate:.2f}; each on a "
        f"core of its own; the middle of {len(ratios)} rounds from {min(ratios):.2f} to {max(ratios):.2f}"
    )
    return Measured(found.ratio(2, found.alone), 2.0, "no gate", remark)


# --- a client ---------------------------------------------------------------------------------------------------------


@row("upload_bulk_client", "rows in blocks of 256 to N = 3, client", "ms a row", 0.04)
def _bulk_client(asked: Asked) -> Measured:
    found = _client(asked)
    remark = f"rows given as mappings {found['bulk, mappings']:.3f}"
    return Measured(found["bulk, array"], found["bare seals, blocks"], "bare seals", remark)


@row("send_single_client", "`send` of one row to N = 3, client", "ms", 1.2)
def _send(asked: Asked) -> Measured:
    found = _client(asked)
    charged = found["the same, charged to a ledger"]
    remark = f"with a ledger and its outbox on disk {charged:.2f}"
    crypto, http = found["bare seals and receipts, alone"], found["bare requests, alone"]
    remark = (
        f"of the floor {http:.2f} are requests; {found['one row at a time'] / crypto:.2f} times the rest; " + remark
    )
    today, what = found["one row at a time"], "three seals, three receipts verified, three requests of the library"
    return Measured(today, crypto + http, what, remark)


# --- the disk ---------------------------------------------------------------------------------------------------------


def _written(asked: Asked, group: int) -> Measured:
    found = bench_store.disk({group: asked.of(bench_store.GROUPS[group], least=4 * group)}, asked.folder)
    remark = f"{found[f'us CPU a report, groups of {group}']:.1f} us CPU a report"
    today = found[f"bytes written a report, groups of {group}"]
    return Measured(today, bench_store.CONTENT, "identifier and payload", remark)


@row("disk_1", "written to disk for a report of 112 bytes, committed alone", "bytes", 8700)
def _written_alone(asked: Asked) -> Measured:
    return _written(asked, 1)


@row("disk_32", "written to disk for a report of 112 bytes, in groups of 32", "bytes", 650)
def _written_32(asked: Asked) -> Measured:
    return _written(asked, 32)


@row("disk_256", "written to disk for a report of 112 bytes, in groups of 256", "bytes", 280)
def _written_256(asked: Asked) -> Measured:
    return _written(asked, 256)
