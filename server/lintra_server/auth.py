"""Authenticates requests: each carries the analyzer's signature, which is accepted once."""

import threading
from collections import OrderedDict
from collections.abc import Mapping

from lintra_protocol.errors import OverloadedError, UnauthorizedError
from lintra_protocol.http.requests import REPLAY_WINDOW, SignedRequest, verify_request
from lintra_protocol.task import Task

MAX_NONCES = 100_000


class Authenticator:
    """Checks signed requests and remembers their nonces for as long as they could be replayed; thread-safe."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._seen: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._lock = threading.Lock()

    def require_analyzer(
        self, task: Task, method: str, url: str, headers: Mapping[str, str], now: int
    ) -> SignedRequest:
        """Check that a request comes from the task's analyzer and was not sent before; its body is still to be read.

        Raises:
            UnauthorizedError: it is not signed by the analyzer, too old, or a repetition.
            InvalidMessageError: a header is malformed.
            OverloadedError: more requests than can be remembered.
        """
        sender = task.analyzer.identity_key
        signed = verify_request(sender, method, url, headers, now)
        nonce = signed.nonce
        with self._lock:
            while self._seen and next(iter(self._seen.values())) <= now:
                self._seen.popitem(last=False)
            if (sender, nonce) in self._seen:
                raise UnauthorizedError("this request was received before; sign every attempt anew")
            if len(self._seen) >= MAX_NONCES:
                raise OverloadedError(f"{MAX_NONCES} signed requests within {2 * REPLAY_WINDOW} s")
            # A date may lie one window ahead and is good for one window after that.
            self._seen[sender, nonce] = now + 2 * REPLAY_WINDOW + 1
        return signed
