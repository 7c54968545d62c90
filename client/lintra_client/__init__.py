"""One of many clients: checks a task's promise, turns rows into sealed reports, and sends them to all N servers.

async with Client(task_id, servers) as client:
    receipt = await client.send({"age": 41, "bmi": 22.4})

A name is loaded when it is first asked for: a program that imports this package and sends later starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintra_client.counted import Counted
    from lintra_client.ledger.ledger import DEFAULT_LEDGER, DISTINCT_SOURCES, Entry, Ledger
    from lintra_client.ledger.prices import Balance
    from lintra_client.organisations.contribution import Account, Contribution
    from lintra_client.organisations.mapping import FileMapping
    from lintra_client.sending.connection import Retries
    from lintra_client.sending.sealed_reports import Parcel
    from lintra_client.sending.sending import SendReceipt
    from lintra_client.task_check import ClientPolicy
    from lintra_client.upload.bulk import FailedRow, SendSummary
    from lintra_client.upload.client import Client
    from lintra_client.upload.sync_client import BlockingClient

__all__ = [
    "DEFAULT_LEDGER",
    "DISTINCT_SOURCES",
    "Account",
    "Balance",
    "BlockingClient",
    "Client",
    "ClientPolicy",
    "Contribution",
    "Counted",
    "Entry",
    "FailedRow",
    "FileMapping",
    "Ledger",
    "Parcel",
    "Retries",
    "SendReceipt",
    "SendSummary",
]

_HOMES = {
    "counted": ("Counted",),
    "ledger.ledger": ("DEFAULT_LEDGER", "DISTINCT_SOURCES", "Entry", "Ledger"),
    "ledger.prices": ("Balance",),
    "organisations.contribution": ("Account", "Contribution"),
    "organisations.mapping": ("FileMapping",),
    "sending.connection": ("Retries",),
    "sending.sealed_reports": ("Parcel",),
    "sending.sending": ("SendReceipt",),
    "task_check": ("ClientPolicy",),
    "upload.bulk": ("FailedRow", "SendSummary"),
    "upload.client": ("Client",),
    "upload.sync_client": ("BlockingClient",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load the module that defines a public name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
