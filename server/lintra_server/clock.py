"""The time, and whether it is plausible: with a wrong clock nothing is destroyed and nothing ends.

The last time seen is kept in `key_dir`. While the process runs, the wall clock must stay within an hour of the clock
that counts seconds since the machine was started; across a stop it may advance by an allowance that is refilled as fast
as time passes, so that many steps gain no more than one. A clock that was wrong and was corrected is believed again:
every look is judged anew, and times that were not believed do not count.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from lintra_protocol.errors import UnavailableError

BUILT = 1_793_491_200
"""1 November 2026, moved on with every release: no clock of a machine that runs this software can be earlier."""

STRAY_SECONDS = 3600
"""By how much the wall clock may differ from the machine's own count of seconds."""

SETTLING_SECONDS = 3600
"""How long a deadline must have passed, in time that this process ran, before anything is destroyed for it."""

DAY = 86_400


def suspended_seconds() -> float:
    """Return for how many seconds the machine was suspended since it was started, as far as the system tells."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() if hasattr(time, "CLOCK_BOOTTIME") else 0.0


@dataclass(frozen=True)
class LastSeen:
    """What is known of time across a stop.

    `clock` is the last accepted time, in seconds since the epoch. `allowance` says by how many seconds the clock may
    advance across stops.
    """

    clock: float
    allowance: float


class Clock:
    """The wall clock behind a guard; thread-safe."""

    def __init__(
        self,
        wall: Callable[[], float],
        running: Callable[[], float],
        seen: LastSeen | None,
        max_step: float,
        suspended: Callable[[], float] = suspended_seconds,
    ) -> None:
        """Look at the clock for the first time.

        `wall` is in seconds since the epoch, as the machine says. `running` is in seconds since some fixed moment,
        which nobody sets; it stands while the machine is suspended. `seen` is what was known when the last process
        ended; None if there was none. `max_step` is the largest allowance, in seconds; `suspended` says for how many
        seconds the machine was suspended so far.
        """
        self.wall = wall
        self._running = running
        self._suspended = suspended
        self._slept = suspended()
        self._lock = threading.Lock()
        now, ran = wall(), running()
        self._anchor = (now, ran)
        self._refilled_at = ran
        self._max_step = max_step
        self._allowance = min(seen.allowance, max_step) if seen else max_step
        # Without a past nothing contradicts the clock, except that it is earlier than this software.
        self._accepted_at = seen.clock if seen else max(now, BUILT)
        self._unjudged = seen
        """What was seen before the stop that no clock was believed after yet."""
        self.complaint = ""
        self.refusals = 0
        """At how many looks it was not believed: it may be wrong and right again between two looks of one caller."""
        self._look()

    def now(self) -> float:
        """Return the time, in seconds since the epoch.

        Raises UnavailableError if the clock is not to be believed; nothing may be decided by it.
        """
        with self._lock:
            now = self._look()
            if self.complaint:
                raise UnavailableError(f"this server's clock is not accepted: {self.complaint}")
            return now

    def check(self) -> None:
        """Look at the clock; raise UnavailableError if it is not to be believed."""
        self.now()

    def accept(self) -> None:
        """Believe the clock as it stands now, because an operator says so."""
        with self._lock:
            self._believe(self.wall(), self._running())
            self._unjudged = None
            self.complaint = ""

    def seen(self) -> LastSeen:
        """Return what the next process needs to know."""
        with self._lock:
            self._look()
            return LastSeen(self._accepted_at, self._allowance)

    def _look(self) -> float:
        now, ran = self.wall(), self._running()
        self.complaint = self._judged(now, ran)
        self.refusals += bool(self.complaint)
        if not self.complaint:
            self._accepted_at = now
            self._allowance = min(self._allowance + max(ran - self._refilled_at, 0), self._max_step)
        self._refilled_at = ran
        return now

    def _judged(self, now: float, ran: float) -> str:
        """Return what is wrong with the clock, and empty if nothing is."""
        if now < BUILT:
            return "it is earlier than this software"
        if self._unjudged is not None:
            return self._judged_after_stop(now, ran, self._unjudged)
        if complaint := self._wake():
            return complaint
        # Both clocks since the last moment that was believed: only a clock that somebody set moves apart from the
        # other.
        wall_then, ran_then = self._anchor
        stray = (now - wall_then) - (ran - ran_then)
        return f"it moved by {stray / 3600:.1f} hours while the server ran" if abs(stray) > STRAY_SECONDS else ""

    def _judged_after_stop(self, now: float, ran: float, seen: LastSeen) -> str:
        # What it would have said at the start: the time since then is no part of the stop.
        advance = now - (ran - self._anchor[1]) - seen.clock
        if advance < -STRAY_SECONDS:
            return f"it is {-advance / DAY:.1f} days behind the last time seen"
        if advance > self._allowance:
            return (
                f"it is {advance / DAY:.1f} days ahead of the last time seen; "
                f"{self._allowance / DAY:.1f} days are left of max_clock_step_days"
            )
        self._allowance -= max(advance, 0)
        self._believe(now, ran)
        self._unjudged = None
        return ""

    def _believe(self, now: float, ran: float) -> None:
        self._anchor = (now, ran)
        self._slept = self._suspended()
        self._accepted_at = now

    def _wake(self) -> str:
        """Let the clock advance by the length of a suspension, if the allowance is enough: it is like a stop."""
        slept = self._suspended()
        advance = slept - self._slept
        if advance < 1:  # the two clocks of the system are not read at the same moment
            return ""
        if advance > self._allowance:
            return f"the machine says that it was suspended for {advance / DAY:.1f} days"
        self._slept = slept
        self._allowance -= advance
        wall_then, ran_then = self._anchor
        # The running clock stood while the machine was suspended: from now on the wall clock is that much ahead.
        self._anchor = (wall_then + advance, ran_then)
        return ""


class Overdue:
    """Deadlines that have passed: a thing may be destroyed for one only after it stayed overdue while we ran."""

    def __init__(self, running: Callable[[], float]) -> None:
        """Count time with a clock that nobody sets."""
        self._running = running
        self._since: dict[Hashable, float] = {}

    def settled(self, due: set[Hashable]) -> set[Hashable]:
        """Return those of the things now overdue that were overdue at every look of the last `SETTLING_SECONDS`."""
        ran = self._running()
        self._since = {thing: self._since.get(thing, ran) for thing in due}
        return {thing for thing, since in self._since.items() if ran - since >= SETTLING_SECONDS}
