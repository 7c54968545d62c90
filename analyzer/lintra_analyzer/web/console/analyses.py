"""The pages of analyses: a form, the finding in words, its picture, the table behind it, and both as files."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.estimators.export import has_parquet, lines_of, npz_of, parquet_of
from lintra_analysis.estimators.figures import INSTALL
from lintra_analysis.estimators.svg import Theme, can_draw, svg_of
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.release import Release
from lintra_analyzer.service import Service
from lintra_analyzer.web.admission import ThisService, holder_of, while_present
from lintra_analyzer.web.analyses import names_of, promise, summary
from lintra_analyzer.web.console.analysis_forms import MOST_BOXES, AnalysisForm, offer_of
from lintra_analyzer.web.console.pages import page, sentence
from lintra_analyzer.web.console.releases import ReleaseId
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.export import CSV, NPZ
from lintra_protocol.errors import InvalidAnalysisError

V = TypeVar("V")
Name = tuple[str, ...]


class AnswerCache(Generic[V]):
    """The answers that were asked for last, at most so many; a name says everything that an answer depends on.

    It is used from one event loop.
    """

    def __init__(self, most: int) -> None:
        """Keep at most `most` answers."""
        self._most = most
        self._held: OrderedDict[Name, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    async def get(self, name: Name, make: Callable[[], Coroutine[None, None, V]]) -> V:
        """Return an answer, which is made if it is not kept; what `make` raises is raised, and nothing kept."""
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        # Two requests may compute the same at once: that costs less than making all others wait.
        made = self._held[name] = await make()
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return made


SHOWN_LINES = 100
"""Lines of a table that a page shows; the files have all."""

SHOWN_PICTURES = 12
"""Pictures of one answer, such as of the columns of a histogram."""

SVG, PARQUET = "image/svg+xml", "application/vnd.apache.parquet"

# A picture that is opened by itself holds styles inside, and nothing else.
PICTURE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "cache-control": "private, max-age=600",
}

_estimates: AnswerCache[Estimate] = AnswerCache(32)
_pictures: AnswerCache[bytes] = AnswerCache(128)


router = console_router()

Shown = Annotated[str, Query(max_length=400)]


@dataclass(frozen=True)
class AnalysisTable:
    """The table behind a picture, for a page: its heading, its first lines, and how many there are."""

    header: list[str]
    lines: list[list[str]]
    count: int


@router.get("/releases/{release_id}/analyses/{kind}")
async def analysis(request: Request, service: ThisService, release_id: ReleaseId, kind: str) -> HTMLResponse:
    """Show the form of an analysis, and its answer as soon as it is filled in."""
    signed, offer = service.record(release_id), offer_of(kind)
    asked = AnalysisForm(offer, request.query_params.multi_items())
    release, complaint, found = await asyncio.to_thread(service.opened, signed), "", None
    try:
        offer.needs(release)
        if asked.complete:
            found = await answer(request, service, signed, asked)
        elif request.query_params:
            complaint = "choose something in every field that is needed"
    except InvalidAnalysisError as error:
        complaint = error.detail
    return await asyncio.to_thread(_page, request, signed, release, asked, found, complaint)


def _page(
    request: Request,
    signed: SignedRecord,
    release: Release,
    asked: AnalysisForm,
    found: Estimate | None,
    complaint: str,
) -> HTMLResponse:
    return page(
        request,
        "analysis.html",
        status=400 if complaint else 200,
        record=signed.record,
        release_id=signed.record.release_id,
        **form_and_table(asked, found, complaint),
        columns=names_of(release),
        targets=asked.offer.form.explains(release),
        pictures=() if found is None or not can_draw() else found.pictures[:SHOWN_PICTURES],
        notes=[] if found is None else notes_of(found),
        warnings=[] if found is None else _warnings(signed, found),
        text="" if found is None else found.summary(promise(signed.record)),
        parquet=has_parquet(),
    )


def form_and_table(asked: AnalysisForm, found: Estimate | None, complaint: str) -> dict[str, object]:
    """Return what every page with a form of questions shows: the form, the complaint, and the table of the answer."""
    return {
        "offer": asked.offer,
        "asked": asked,
        "most_boxes": MOST_BOXES,
        "complaint": complaint,
        "found": found,
        "table": None if found is None else table_of(found),
        "missing": "" if can_draw() else INSTALL,
    }


@router.get("/releases/{release_id}/analyses/{kind}/picture.svg")
async def picture(
    request: Request, service: ThisService, release_id: ReleaseId, kind: str, theme: Theme = "light", shown: Shown = ""
) -> Response:
    """Draw the answer of an analysis; `shown` names the part of it, where it has several pictures."""
    asked = AnalysisForm(offer_of(kind), request.query_params.multi_items())
    signed = service.record(release_id)

    async def drawn() -> bytes:
        found = await answer(request, service, signed, asked)
        return await asyncio.to_thread(svg_of, found.drawing(shown), theme)

    drawing = await _pictures.get((release_id, kind, asked.query, theme, shown), drawn)
    return Response(drawing, media_type=SVG, headers=PICTURE_HEADERS)


@router.get("/releases/{release_id}/analyses/{kind}/table.{ending}")
async def table(
    request: Request, service: ThisService, release_id: ReleaseId, kind: str, ending: Literal["csv", "npz", "parquet"]
) -> Response:
    """Return the table of an answer as a file."""
    asked = AnalysisForm(offer_of(kind), request.query_params.multi_items())
    found = await answer(request, service, service.record(release_id), asked)
    return await asyncio.to_thread(file_of, found, ending, f"lintra-{kind}-{release_id}")


async def answer(request: Request, service: Service, signed: SignedRecord, asked: AnalysisForm) -> Estimate:
    """Return the answer to a filled-in form; it is not computed to its end if the page leaves."""
    wanted, who = asked.request(), holder_of(request).name

    async def made() -> Estimate:
        return await while_present(request, service.analyse(signed, wanted, who))

    if asked.offer.kind == "synthetic":
        # Many rows are quickly drawn again, and would fill the memory.
        return await made()
    return await _estimates.get((signed.record.release_id, asked.offer.kind, asked.query), made)


def file_of(found: Estimate, ending: Literal["csv", "npz", "parquet"], name: str) -> Response:
    """Return the table of an answer as a file of some ending, with the headers that go with it."""
    made = {
        "csv": lambda: (found.to_csv().encode(), CSV),
        "npz": lambda: (npz_of(found), NPZ),
        "parquet": lambda: (parquet_of(found), PARQUET),
    }
    content, kind = made[ending]()
    headers = found.headers() | {"content-disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=kind, headers=headers)


def table_of(found: Estimate) -> AnalysisTable:
    """Return the table of an answer with numbers that people can read."""
    header, lines = lines_of(found)
    shown = [[_readable(cell) for cell in line] for line in lines[:SHOWN_LINES]]
    return AnalysisTable([name.replace("_", " ") for name in header], shown, len(lines))


def notes_of(found: Estimate) -> list[str]:
    """Return what an answer says about its own numbers."""
    single = (getattr(found, name, "") for name in ("law", "r2_note", "cost_note"))
    return [*(note for note in single if note), *getattr(found, "notes", ())]


def _warnings(signed: SignedRecord, found: Estimate) -> list[str]:
    own = summary(signed.record)["warnings"]
    said = [*(own if isinstance(own, list) else []), *getattr(found, "warnings", ())]
    # An estimate may say again what the certificate says.
    return list(dict.fromkeys(sentence(warning) for warning in said))


def _readable(cell: str) -> str:
    try:
        return number(float(cell), 5)
    except ValueError:
        return cell
