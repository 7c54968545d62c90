"""The page that adds up what the people of each population have spent, over all tasks about them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.service import Service
from lintra_analyzer.web.admission import ThisService, visible_tasks
from lintra_analyzer.web.console.certificate import NEIGHBOURS, Together, promised, spent_together
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_protocol.privacy.statement import PrivacyStatement

router = console_router()


@dataclass(frozen=True)
class SpentLine:
    """What people of a population were promised together, where the promises compare the same worlds.

    Attributes:
        population: in the analyst's words.
        worlds: what is compared, in words.
        released: over all releases; None without any.
        every: besides these over all tasks that are not released, which devices were charged for as well.
    """

    population: str
    worlds: str
    released: Together | None
    every: Together | None


@router.get("/privacy")
def privacy(request: Request, service: ThisService) -> HTMLResponse:
    """Show what the people of each population have spent over all tasks."""
    populations = sorted({stored.population for stored in visible_tasks(request)})
    return page(request, "privacy.html", lines=[line for name in populations for line in spent_lines(service, name)])


def spent_lines(service: Service, population: str) -> list[SpentLine]:
    """Add up the promises to a population, whoever may look at its tasks: one line for each kind of promise.

    Promises that compare other worlds do not add up to one, so they stand beside each other.
    """
    about = {stored.task_id for stored in service.store.tasks() if stored.population == population}
    records = [signed.record for signed in service.records() if signed.record.task_id in about]
    released = _by_worlds(promised(records))
    waiting = about - {record.task_id for record in records}
    every = _by_worlds([*promised(records), *(service.task(task_id).worst_together() for task_id in sorted(waiting))])
    return [
        SpentLine(population, worlds, spent_together(released.get(worlds, [])), spent_together(every[worlds]))
        for worlds in sorted(every)
    ]


def _by_worlds(statements: Iterable[PrivacyStatement]) -> dict[str, list[PrivacyStatement]]:
    found = defaultdict(list)
    for statement in statements:
        whom = f", for {statement.persons}" if statement.persons else ""
        found[NEIGHBOURS[statement.neighbours] + whom].append(statement)
    return dict(found)
