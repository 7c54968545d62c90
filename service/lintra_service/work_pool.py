"""Computations that somebody asks for: each in a process of its own, with a cap on its memory and its time.

1. Who asks takes turns with the others who ask, so that one who asks a hundred times delays nobody else by more than
   the computation that runs.
2. A computation whose asker left is ended at once, and so is one that reaches a cap.
3. What is known to be small runs in a thread, in the same turn: a process would cost more than the computation.
"""

import asyncio
import multiprocessing
import pickle
import resource
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from lintra_protocol.errors import LintraError, OverloadedError

T = TypeVar("T")

MOST_WAITING = 64
"""Computations that wait for their turn; more are refused."""

START_SECONDS = 120
"""In which a process begins at the latest; the first one waits until what all are made from has loaded the modules."""

_context = multiprocessing.get_context("forkserver")
_starting = threading.Lock()


class WorkRefusedError(Exception):
    """A computation reached a cap; the text says which, as the end of a sentence about it."""


@dataclass(frozen=True)
class WorkLimits:
    """What the computations of a service may use."""

    processes: int = 2  #: that compute at the same time
    seconds: float = 10  #: of one computation, from its start
    most_bytes: int = 1 << 30  #: of memory that one computation has in all


class WorkPool:
    """The processes of one service, and who waits for them; used from one event loop."""

    def __init__(self, limits: WorkLimits, preload: Sequence[str] = ()) -> None:
        """Begin with nothing to do; `preload` names the modules that computations need, so that each starts fast."""
        self._limits = limits
        self._free = limits.processes
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        # Without the program itself among them every process would load it anew.
        _context.set_forkserver_preload(["__main__", *preload])

    async def run(self, who: str, work: Callable[..., T], *arguments: object, small: bool = False) -> T:
        """Return what `work` returns for the arguments; the caller's cancellation ends it.

        `who` asks; computations of the same asker wait for each other first. `work` is a function of a module, and the
        arguments and what it returns can be pickled. `small` says that it needs no process of its own.

        Raises:
            OverloadedError: too many computations wait already.
            WorkRefusedError: a cap on memory or time was reached.
            LintraError: `work` raised it.
        """
        async with self._turn(who):
            if small:
                return await asyncio.to_thread(work, *arguments)
            return await self._in_process(work, arguments)

    async def warm_up(self) -> None:
        """Load the modules that computations need, so that the first one does not wait for them."""
        await self.run("", len, ())

    @asynccontextmanager
    async def _turn(self, who: str) -> AsyncIterator[None]:
        await self._wait(who)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, who: str) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            raise OverloadedError("many computations wait already; ask again in a minute")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # It may have been called in the same moment; then the next one goes.
            if turn.done() and not turn.cancelled():
                self._next()
            raise

    def _next(self) -> None:
        while self._waiting:
            who, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[who] = turns  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def _in_process(self, work: Callable[..., T], arguments: Sequence[object]) -> T:
        limits = self._limits
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_compute, args=(theirs, limits, work, arguments), daemon=True)
        try:
            await asyncio.to_thread(_start, process)
            theirs.close()
            async with asyncio.timeout(START_SECONDS):
                kind, value = await asyncio.to_thread(_received, ours)
            if kind == "begun":
                async with asyncio.timeout(limits.seconds):
                    kind, value = await asyncio.to_thread(_received, ours)
        except TimeoutError:
            raise WorkRefusedError(f"it takes more than {limits.seconds:g} seconds") from None
        finally:
            # The thread that receives ends when the process does.
            if process.pid is not None:
                process.kill()
                asyncio.get_running_loop().run_in_executor(None, process.join)
            ours.close()
        if kind == "memory":
            raise WorkRefusedError(f"it takes more than {limits.most_bytes / 2**20:,.0f} MiB of memory")
        if kind == "refused":
            raise value
        if kind == "failed":
            raise RuntimeError(f"a computation failed: {value}")
        found: T = value
        return found


def _start(process: Any) -> None:
    # Two threads that start the fork server at once would start two.
    with _starting:
        process.start()


def _received(ours: Connection) -> tuple[str, Any]:
    """Return what a computation sent; a process that says nothing was ended by its cap on memory."""
    try:
        kind, value = pickle.loads(ours.recv_bytes())  # noqa: S301 - from a process of ours
    except (EOFError, OSError):  # the second, when the asker left and our end was closed
        return "memory", None
    return kind, value


def _compute(theirs: Connection, limits: WorkLimits, work: Callable[..., object], arguments: Sequence[object]) -> None:
    """Compute, within the caps, and send what came of it."""
    _limit(limits)
    try:
        theirs.send_bytes(pickle.dumps(("begun", None)))
    except BrokenPipeError:  # the asker left
        return
    try:
        answer: tuple[str, object] = ("found", work(*arguments))
        sent = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        sent = pickle.dumps(("memory", None))
    except LintraError as error:
        sent = pickle.dumps(("refused", error))
    except Exception as error:
        sent = pickle.dumps(("failed", f"{type(error).__name__}: {error}"))
    with suppress(BrokenPipeError):  # the asker left
        theirs.send_bytes(sent)


def _limit(limits: WorkLimits) -> None:
    """Set the caps of this process; memory that is its own already counts."""
    pages, resident, *_ = map(int, Path("/proc/self/statm").read_text().split())
    size = resource.getpagesize()
    most = pages * size + max(0, limits.most_bytes - resident * size)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # Whatever becomes of the process that asked, this one ends.
    seconds = int(limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (8 * seconds, 8 * seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
