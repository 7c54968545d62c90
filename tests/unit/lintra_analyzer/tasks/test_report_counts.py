"""What servers said last of their reports: the fewest, with its age, asked again in the background."""

import asyncio

from lintra_analyzer.storage.rows import ServerState
from lintra_analyzer.tasks import report_counts
from lintra_analyzer.tasks.report_counts import AGAIN_SECONDS, AT_ONCE, LiveStates, ReportCount, ReportCounts
from lintra_protocol.errors import UnknownTaskError
from lintra_protocol.messages.documents import Counters


def said(*accepted: int | None) -> LiveStates:
    return [
        (
            ServerState(server, "accepted"),
            None if count is None else Counters(received=count, accepted=count, repeated=0, refused={}),
        )
        for server, count in enumerate(accepted)
    ]


class Servers:
    """Servers that are asked, and a clock."""

    def __init__(self) -> None:
        self.now, self.asked, self.busy, self.most = 1000, list[str](), 0, 0
        self.counts = ReportCounts(self.ask, lambda: self.now)

    async def ask(self, task_id: str) -> LiveStates:
        self.asked.append(task_id)
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        if task_id == "unknown":
            raise UnknownTaskError(task_id)
        return said(7, 5, 6)

    async def settled(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)


async def test_the_fewest_count_and_none_where_a_server_is_away() -> None:
    servers = Servers()
    assert servers.counts.known("a") is None
    servers.counts.keep("a", said(7, 5, 6))
    assert servers.counts.known("a") == ReportCount(1000, 5)
    servers.counts.keep("a", said(7, None, 6))
    assert servers.counts.known("a") == ReportCount(1000, None)


async def test_servers_are_asked_again_when_the_answer_is_old_and_few_at_once() -> None:
    servers = Servers()
    names = [str(number) for number in range(20)] + ["unknown"]
    servers.counts.refresh(names)
    servers.counts.refresh(names)
    await servers.settled()
    assert sorted(servers.asked) == sorted(names)
    assert servers.most == AT_ONCE
    servers.now += AGAIN_SECONDS
    servers.counts.refresh(names[:20])
    await servers.settled()
    assert len(servers.asked) == 21
    servers.now += 1
    servers.counts.refresh(["3", "unknown"])
    await servers.settled()
    assert servers.asked[21:] == ["3", "unknown"]
    assert servers.counts.known("3") == ReportCount(1000 + AGAIN_SECONDS + 1, 5)


async def test_what_is_kept_is_bounded_and_what_is_asked_is_given_up_at_the_end(monkeypatch) -> None:
    monkeypatch.setattr(report_counts, "MOST_KEPT", 3)
    servers = Servers()
    for name in "abcd":
        servers.counts.keep(name, said(1))
    assert servers.counts.known("a") is None
    assert servers.counts.known("d") == ReportCount(1000, 1)
    servers.counts.refresh(["x", "y"])
    await servers.counts.stop()
    await servers.settled()
    assert servers.counts.known("x") is None
