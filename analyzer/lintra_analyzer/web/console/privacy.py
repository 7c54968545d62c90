"""The page that adds up what the people of each population have spent, over all tasks about them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.service import Service
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.tasks.populations import PopulationPrivacy
from lintra_analyzer.web.admission import ThisService, holder_of
from lintra_analyzer.web.console.certificate import NEIGHBOURS
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router

DEVICE_CEILING = 3.0
"""The epsilon that a device's ledger allows over all tasks together, unless its owner chose another."""

router = console_router()


@dataclass(frozen=True)
class SpentLine:
    """What people of a population were promised together, where the promises compare the same worlds."""

    population: str  #: in the analyst's words
    worlds: str  #: what is compared, in words
    released: PopulationPrivacy | None  #: over all releases; None without any
    #: besides these over all tasks that are not released, which devices were charged for as well
    every: PopulationPrivacy | None


@router.get("/privacy")
def privacy(request: Request, service: ThisService, start: Annotated[int, Query(ge=0, lt=1 << 32)] = 0) -> HTMLResponse:
    """Show what the people of each population have spent over all tasks, from a place in the list on."""
    every = service.store.listed.populations(holder_of(request).scope)
    populations = every[start : start + PAGE]
    following = start + PAGE if len(every) > start + PAGE else None
    unreadable = sum(service.populations.to(population).unreadable for population in populations)
    lines = [line for population in populations for line in spent_lines(service, population)]
    return page(
        request, "privacy.html", lines=lines, unreadable=unreadable, start=start, following=following,
        ceiling=DEVICE_CEILING,
    )  # fmt: skip


def spent_lines(service: Service, population: str) -> list[SpentLine]:
    """Describe the promises to a population, whoever may look at its tasks: one line for each kind of promise.

    PopulationTotals that compare other worlds do not add up to one, so they stand beside each other.
    """
    return [
        SpentLine(population, NEIGHBOURS[neighbours] + (f", for {persons}" if persons else ""), released, every)
        for (neighbours, persons), (released, every) in service.populations.to(population).by_worlds.items()
    ]
