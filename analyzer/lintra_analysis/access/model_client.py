"""Models in rounds over the REST interface: made, watched, and read by an analyst."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2

from lintra_protocol.errors import LintraError

Document = dict[str, Any]
Send = Callable[[str, str, Mapping[str, object] | None, dict[str, str] | None], httpx2.Response]


class ModelClient:
    """The models of one analyst's connection, as `AnalyzerClient.models`; a model is named by its first round's task.

    >>> from lintra_analysis import connect
    >>> with connect("http://analyzer.test", "lintra_your-token") as analyzer:
    ...     for model in analyzer.models.all():
    ...         print(analyzer.models.show(model["task_id"])["said"])
    """

    def __init__(self, send: Send, pages: Callable[[str], list[Document]], new_key: Callable[[], str]) -> None:
        """Send requests with what a connection gives."""
        self._send = send
        self._pages = pages
        self._new_key = new_key

    def create(
        self,
        specification: Mapping[str, object],
        windows: int = 1,
        request_key: str | None = None,
        population: str | None = None,
    ) -> Document:
        """Make the first round of a model; the analyzer makes the others by itself.

        Args:
            specification: of a `newton_step`; its `rounds` are those that the same people answer.
            windows: how many windows, each with people of its own, where `rounds` is 1.
            request_key: give the same one to repeat a request from another process.
            population: whose rows it is about; everybody's if not given.

        Raises:
            LintraError: the specification is impossible, or a server refused the task.
        """
        query = "" if population is None else f"?{urlencode({'population': population})}"
        body = {"specification": dict(specification), "windows": windows}
        headers = {"idempotency-key": request_key or self._new_key()}
        return _document(self._send("POST", f"/v1/models{query}", body, headers))

    def all(self) -> list[Document]:
        """List all models, the newest first."""
        return self._pages("/v1/models")

    def show(self, task_id: str) -> Document:
        """Return a model: its rounds with T, what they say, and what was reserved and spent."""
        return _document(self._send("GET", f"/v1/models/{task_id}", None, None))

    def stop(self, task_id: str) -> Document:
        """Make no further round of a model."""
        return _document(self._send("POST", f"/v1/models/{task_id}/stop", None, None))

    def estimate(self, task_id: str, **arguments: object) -> Document:
        """Return the logistic regression of the last round that was released, with the options of a `logit`.

        Raises:
            InvalidAnalysisError: no round is released yet.
        """
        return _document(self._send("GET", _estimate_path(task_id, arguments), None, None))

    def estimate_text(self, task_id: str, media_type: str = "text/plain", **arguments: object) -> str:
        """Return the same as a text for people, or as "text/csv"."""
        answer = self._send("GET", _estimate_path(task_id, arguments), None, {"accept": media_type})
        return answer.content.decode("utf-8")

    def follow(
        self, task_id: str, reports: int | None = None, poll_seconds: float = 5.0, wait_seconds: float | None = None
    ) -> Iterator[Document]:
        """Yield a model whenever something of it has changed, until it has ended.

        Args:
            task_id: of the first round.
            reports: release a round as soon as every server holds so many reports, instead of when its time is over.
            poll_seconds: how often to ask.
            wait_seconds: how long at most; for ever if not given.
        """
        deadline, before = None if wait_seconds is None else time.monotonic() + wait_seconds, None
        while True:
            model = self.show(task_id)
            if model != before:
                yield model
            before = model
            if model["state"] == "ended" or (deadline is not None and time.monotonic() > deadline):
                return
            if reports is not None and model["state"] in ("collecting", "waiting"):
                self._release_full(model["rounds"][-1]["task_id"], reports)
            time.sleep(poll_seconds)

    def _release_full(self, task_id: str, reports: int) -> None:
        try:
            census = _document(self._send("GET", f"/v1/tasks/{task_id}/census?batch=0", None, None))
            if census["common"] >= reports:
                self._send("PUT", f"/v1/tasks/{task_id}/batches/0/release", None, None)
        except LintraError:
            return  # a round that is closed just now, or a server that is away: the next look sees


def _estimate_path(task_id: str, arguments: Mapping[str, object]) -> str:
    return f"/v1/models/{task_id}/estimate" + (f"?{urlencode(arguments)}" if arguments else "")


def _document(response: httpx2.Response) -> Document:
    found: Document = json.loads(response.content)
    return found
