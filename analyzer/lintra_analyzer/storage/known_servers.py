"""The analyzer's record of servers: the first key of each, and how often each server said that it had begun."""

from dataclasses import replace

from lintra_analyzer.storage.trusted_file import Trusted, TrustedFile


class KnownServers:
    """Keys and numbers of starts, in the trusted file; thread-safe."""

    def __init__(self, file: TrustedFile) -> None:
        """Keep them in the trusted file."""
        self._file = file

    def pinned_key(self, url: str) -> str | None:
        """Return the identity key that the server at an address had when it was first met."""
        return self._file.state().pins.get(url)

    def pin(self, url: str, identity_key: str) -> str:
        """Keep a server's identity key, unless there is one already; return the one that counts."""

        def step(old: Trusted) -> tuple[Trusted, str]:
            if url in old.pins:
                return old, old.pins[url]
            return replace(old, pins={**old.pins, url: identity_key}), identity_key

        return self._file.change(step)

    def highest_start(self, identity_key: str, start: int) -> int:
        """Remember how often a server says it has begun; return the largest number it ever said."""
        # A census asks for this each time, and the number seldom rises.
        known = self._file.state().starts.get(identity_key, -1)
        if known >= start:
            return known

        def step(old: Trusted) -> tuple[Trusted, int]:
            highest = max(old.starts.get(identity_key, start), start)
            return replace(old, starts={**old.starts, identity_key: highest}), highest

        return self._file.change(step)
