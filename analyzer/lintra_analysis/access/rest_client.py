"""The REST interface from Python, blocking: what the command line, notebooks and the demo use.

Creating a task carries a key of its own, so that a repetition does not make a second one.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

import httpx2

from lintra_analysis.access.downloaded import RECORD, TASK, opened
from lintra_analysis.access.model_client import ModelClient
from lintra_analysis.access.requests import Document, Requests, refusal
from lintra_analysis.access.stream import NO_STREAM, WindowNumbers, WindowStream, remembered_in
from lintra_analysis.certificate.certificate import SignedRecord, numbers_in
from lintra_analysis.releases.release import Release
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidAnalysisError, InvalidMessageError, UnavailableError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task

_MOST_TOKENS = 10_000


def connect(url: str, token: str) -> "AnalyzerClient":
    """Connect to an analyzer; the result makes tasks, starts releases and opens them for analyses that run here.

    >>> from lintra_analysis import connect, regression
    >>> with connect("http://analyzer.test", "lintra_your-token") as analyzer:
    ...     release = analyzer.open_release(analyzer.releases()[0]["release_id"])
    >>> print(regression(release, "delay").num_clients)
    240

    Args:
        url: of the analyzer, such as "https://analyzer.example.org".
        token: what `lintra analyzer token` gave out.
    """
    return AnalyzerClient(url, token)


class AnalyzerClient(Requests):
    """One analyst's connection to an analyzer; close it, or use it in a `with` statement.

    >>> from lintra_analysis import connect
    >>> analyzer = connect("http://analyzer.test", "lintra_your-token")
    >>> for release in analyzer.releases():
    ...     analyzer.download_release(release["release_id"], "copy-of-" + release["release_id"])
    >>> analyzer.close()
    """

    @property
    def models(self) -> ModelClient:
        """Return what fits models in rounds."""
        return ModelClient(self._send, self._pages, lambda: base64url(self._random_bytes(16)))

    # --- tasks ---------------------------------------------------------------------------------------------------

    def keys(self) -> Document:
        """Return the analyzer's public keys."""
        return self._json("GET", "/v1/keys")

    def create_task(
        self, specification: Mapping[str, object], request_key: str | None = None, population: str | None = None
    ) -> Document:
        """Create and register a task; the answer has its `task_id`.

        Args:
            specification: see docs/reference/analyzer-tasks.md.
            request_key: give the same one to repeat a request from another process.
            population: whose rows it is about; what is spent about the same people adds up. Everybody's if not given.

        Raises:
            LintraError: the specification is impossible, or a server refused the task.
        """
        key = request_key or base64url(self._random_bytes(16))
        path = "/v1/tasks" if population is None else f"/v1/tasks?{urlencode({'population': population})}"
        return self._json("POST", path, specification, {"idempotency-key": key})

    def tokens(self, task_id: str, count: int = 1) -> list[str]:
        """Make tokens for clients of a task that asks for them; each is a place for one report, and a secret."""
        made: list[str] = []
        while len(made) < count:
            some = min(count - len(made), _MOST_TOKENS)
            made += self._json("POST", f"/v1/tasks/{task_id}/tokens", {"count": some})["tokens"]
        return made

    def census(self, task_id: str, window: int = BATCH) -> Document:
        """Ask the servers what they hold of a task's open batch; it changes nothing."""
        return self._json("GET", f"/v1/tasks/{task_id}/census?batch={window}")

    def windows(self, task_id: str) -> list[Document]:
        """List the windows of a task that have begun: when each is, what became of it, and its release if it has one.

        >>> from lintra_analysis import connect
        >>> with connect("http://analyzer.test", "lintra_your-token") as analyzer:
        ...     for window in analyzer.windows("the-identifier-of-a-task-with-windows"):
        ...         print(window["window"], window["state"], window["release_id"])

        Raises:
            UnknownBatchError: the task has no windows.
        """
        return self._pages(f"/v1/tasks/{task_id}/windows")

    def create_second_task(self, task_id: str, row_bound: float | str | None = None) -> Document:
        """Create and register the second of two rounds from the release of the first; repeating it finds the same task.

        Args:
            task_id: of the first round.
            row_bound: norm that rows about their class's centre are clipped to; without it the release gives it.

        Raises:
            LintraError: the first is not released, or does not give what is needed, or a server refused the task.
        """
        return self._json("POST", f"/v1/tasks/{task_id}/second-round", {"row_bound": row_bound})

    def register_task(self, task_id: str) -> Document:
        """Bring a task to every server, also to one that lost it."""
        return self._json("PUT", f"/v1/tasks/{task_id}/registration")

    def tasks(self) -> list[Document]:
        """List all tasks, the newest first; one that the analyzer cannot read has `unreadable` and no more."""
        return self._pages("/v1/tasks")

    def task(self, task_id: str, live: bool = False) -> Document:
        """Describe a task; `live` asks its servers now."""
        return self._json("GET", f"/v1/tasks/{task_id}{'?live=1' if live else ''}")

    # --- releases ------------------------------------------------------------------------------------------------

    def start_release(self, task_id: str, window: int = BATCH) -> Document:
        """Start the release of a task, or of a window, or go on with it, and return how far it is."""
        return self._json("PUT", _release_path(task_id, window))

    def release_state(self, task_id: str, window: int = BATCH) -> Document:
        """Return how far the release of a task, or of a window, is."""
        return self._json("GET", _release_path(task_id, window))

    def release(
        self,
        task_id: str,
        wait_seconds: float = 600.0,
        poll_seconds: float = 0.2,
        progress: Callable[[str], None] | None = None,
    ) -> str:
        """Start the release of a task, wait for it, and return its identifier.

        Args:
            task_id: of the task.
            wait_seconds: how long to wait while it is running.
            poll_seconds: how often to ask.
            progress: told the name of every stage that is seen to begin.

        Raises:
            LintraError: the refusal that the release stands still at, with `retryable` saying whether time may help.
            UnavailableError: it is still running after `wait_seconds`.
        """
        deadline = time.monotonic() + wait_seconds
        job, shown = self.start_release(task_id), None
        while job["state"] == "running":
            if progress is not None and job["stage"] != shown:
                shown = job["stage"]
                progress(shown)
            if time.monotonic() > deadline:
                raise UnavailableError(f"the release is still at stage {job['stage']}; ask again later")
            time.sleep(poll_seconds)
            job = self.release_state(task_id)
        if job["release_id"] is None:
            raise from_problem(job["problem"] or {})
        return str(job["release_id"])

    def releases(self) -> list[Document]:
        """List all releases, the newest first; one that the analyzer cannot read has `unreadable` and no more."""
        return self._pages("/v1/releases")

    def record(self, release_id: str) -> SignedRecord:
        """Return the signed record of a release, after checking that it has this identifier.

        Raises:
            InvalidMessageError: it is another's.
        """
        document = self._json("GET", f"/v1/releases/{release_id}")
        signed = SignedRecord.from_value({"record": document["record"], "signature": document["signature"]})
        if signed.record.release_id != release_id:
            raise InvalidMessageError(f"the record is that of {signed.record.release_id}")
        return signed

    def sketch(self, release_id: str, media_type: str = "application/octet-stream") -> bytes:
        """Return the released numbers: .npz, or "application/json", or "text/csv"."""
        return self._send("GET", f"/v1/releases/{release_id}/sketch", headers={"accept": media_type}).content

    def open_release(self, release_id: str) -> Release:
        """Return a release as the estimators read it, so that analyses run here; a second round with its first.

        Numbers, record and task are checked against each other.

        Raises:
            InvalidReleaseError: the numbers or the task are not those of the record.
            InvalidMessageError: the record is another's.
        """
        signed = self.record(release_id)
        task = Task.from_value(self.task(signed.record.task_id)["definition"])
        return opened(signed, task, self.sketch(release_id), self._earlier)

    def stream(self, task_id: str) -> WindowStream:
        """Return the released windows of a stream; their errors know what every server took back.

        `release` of it adds up those of an interval, as any other release.

        Raises:
            InvalidAnalysisError: the windows are no stream, or none was released.
            InvalidReleaseError: numbers are not those of their record.
        """
        task, windows = Task.from_value(self.task(task_id)["definition"]), dict[int, WindowNumbers]()
        if task.stream is None:
            raise InvalidAnalysisError(NO_STREAM)
        for window in self.windows(task_id):
            if window["release_id"] is not None:
                record = self.record(window["release_id"]).record
                if (record.task_id, record.batch) != (task_id, window["window"]):
                    raise InvalidMessageError("the list of windows names the release of another one")
                numbers = numbers_in(record, self.sketch(record.release_id))
                windows[record.batch] = WindowNumbers(remembered_in(record), *numbers)
        return WindowStream(task, windows)

    def download_release(self, release_id: str, path: str | Path) -> None:
        """Write a release to three files that `open_release` opens: `<path>.npz`, `<path>.json`, `<path>.task.json`.

        Args:
            release_id: of the release.
            path: of the files without their ending; what stands there is replaced.

        Raises:
            InvalidReleaseError: numbers, record and task do not belong together; nothing is written.
        """
        signed = self.record(release_id)
        task = Task.from_value(self.task(signed.record.task_id)["definition"])
        numbers = self.sketch(release_id)
        opened(signed, task, numbers, self._earlier)
        start = Path(path)
        for ending, content in ((".npz", numbers), (RECORD, signed.canonical()), (TASK, task.canonical())):
            start.with_name(start.name + ending).write_bytes(content)

    def _earlier(self, task_id: str) -> Release | None:
        """Return the release of an earlier task, or None if it was not released."""
        release_id = self.release_state(task_id)["release_id"]
        if release_id is None:
            return None
        if self.record(release_id).record.task_id != task_id:
            raise InvalidMessageError("the release of the first round is another task's")
        return self.open_release(release_id)

    def cohort(self, release_id: str) -> Document:
        """Return the report identifiers of a release."""
        return self._json("GET", f"/v1/releases/{release_id}/cohort")

    def download_evidence(self, release_id: str, path: str | Path) -> None:
        """Write the evidence of a verified task's verdict to a file, which `lintra audit replay` checks.

        Args:
            release_id: of the release.
            path: of the file; what stands there is replaced when all has come.

        Raises:
            UnknownResourceError: reports of the task are not verified.
            UnavailableError: the analyzer does not answer, or the answer broke off.
        """
        whole, coming = Path(path), Path(f"{path}.part")
        try:
            with self._http.stream("GET", f"/v1/releases/{release_id}/evidence") as response:
                if not response.is_success:
                    response.read()
                    raise refusal(response)
                with coming.open("wb") as file:
                    for piece in response.iter_bytes():
                        file.write(piece)
            coming.replace(whole)
        except httpx2.TransportError as error:
            raise UnavailableError(f"the analyzer does not answer: {type(error).__name__}") from None
        finally:
            coming.unlink(missing_ok=True)

    def analyse(self, release_id: str, kind: str, **arguments: object) -> Document:
        """Run an analysis, such as "regression" or "pca", with the arguments of docs/reference/analyzer-releases.md.

        `release_id` may name windows of a stream as well, which are added up: `TASK:FIRST-LAST`.

        Raises:
            InvalidAnalysisError: it does not fit the release.
        """
        return self._json("POST", _analyses_of(release_id), {"kind": kind, **arguments})

    def analysis_text(self, release_id: str, kind: str, media_type: str = "text/plain", **arguments: object) -> str:
        """Run an analysis and return it as a text for people, or as "text/csv".

        Raises:
            InvalidAnalysisError: it does not fit the release.
        """
        return self._text(_analyses_of(release_id), {"kind": kind, **arguments}, media_type)

    def trend(self, task_id: str, column: str, **arguments: object) -> Document:
        """Combine the windows of a task that were released, with the arguments of docs/reference/analyzer-releases.md.

        Raises:
            InvalidAnalysisError: fewer than two windows were released, or it does not fit the releases.
            UnknownBatchError: the task has no windows.
        """
        return self._json("POST", f"/v1/tasks/{task_id}/trend", {"column": column, **arguments})

    def trend_text(self, task_id: str, column: str, media_type: str = "text/plain", **arguments: object) -> str:
        """Combine windows as `trend` does, and return a text for people, or "text/csv"."""
        return self._text(f"/v1/tasks/{task_id}/trend", {"column": column, **arguments}, media_type)

    def timeline(self, task_id: str, **arguments: object) -> Document:
        """Return columns over the windows of a stream, with the arguments of docs/reference/analyzer-releases.md.

        Raises:
            InvalidAnalysisError: the windows are no stream, none was released, or it does not fit them.
        """
        return self._json("POST", f"/v1/tasks/{task_id}/timeline", arguments)

    def timeline_text(self, task_id: str, media_type: str = "text/plain", **arguments: object) -> str:
        """Return columns over windows as `timeline` does, as a text for people, or "text/csv"."""
        return self._text(f"/v1/tasks/{task_id}/timeline", arguments, media_type)


def _release_path(task_id: str, batch: int) -> str:
    return f"/v1/tasks/{task_id}/batches/{batch}/release"


def _analyses_of(name: str) -> str:
    """Return where analyses of a release are asked for, or of windows of a stream, as TASK:FIRST-LAST."""
    task_id, is_interval, interval = name.partition(":")
    return f"/v1/tasks/{task_id}/windows/{interval}/analyses" if is_interval else f"/v1/releases/{name}/analyses"
