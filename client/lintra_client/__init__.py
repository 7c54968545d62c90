"""One of many clients: checks a task's promise, turns rows into sealed reports, and sends them to all N servers.

async with Client(task_id, servers) as client:
    receipt = await client.send({"age": 41, "bmi": 22.4})
"""

from lintra_client.blocking import BlockingClient
from lintra_client.bulk import FailedRow, SendSummary
from lintra_client.channel import Retries
from lintra_client.check import Policy
from lintra_client.client import Client, SendReceipt
from lintra_client.ledger import DISTINCT_SOURCES, Balance, Entry, Ledger
from lintra_client.report import Parcel

__all__ = [
    "DISTINCT_SOURCES",
    "Balance",
    "BlockingClient",
    "Client",
    "Entry",
    "FailedRow",
    "Ledger",
    "Parcel",
    "Policy",
    "Retries",
    "SendReceipt",
    "SendSummary",
]
