"""Requests to an analyzer: answers that are none are refused in words, and a token is sent to no other address."""

import json

import httpx2
import pytest

from lintra_analysis.access.requests import Requests
from lintra_protocol.errors import InvalidMessageError, UnavailableError, UnknownTaskError
from lintra_protocol.http.problems import MEDIA_TYPE, to_problem


def asking(*answers: httpx2.Response | Exception) -> tuple[Requests, list[str]]:
    """Return a connection that gets these answers, and the list of what it asks."""
    asked: list[str] = []
    left = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return Requests("http://analyzer.test", "token", attempts=1, transport=httpx2.MockTransport(answer)), asked


def test_a_refusal_is_the_error_that_the_analyzer_raised() -> None:
    problem = json.dumps(dict(to_problem(UnknownTaskError("there is no such task"))))
    headers = {"content-type": f"{MEDIA_TYPE}; charset=utf-8"}
    requests, _ = asking(httpx2.Response(404, content=problem, headers=headers), httpx2.Response(502, text="<html>"))
    with pytest.raises(UnknownTaskError, match="no such task"):
        requests._json("GET", "/v1/tasks/x")
    with pytest.raises(InvalidMessageError, match="status 502 without a problem document; is this an analyzer"):
        requests._json("GET", "/v1/tasks/x")


def test_who_does_not_answer_is_away() -> None:
    requests, _ = asking(httpx2.ConnectError("gone"))
    with pytest.raises(UnavailableError, match="does not answer: ConnectError"):
        requests._json("GET", "/v1/keys")


def test_a_list_is_read_page_by_page_and_never_from_another_address() -> None:
    def page(content: list[int], following: str | None) -> httpx2.Response:
        headers = {} if following is None else {"link": f'<{following}>; rel="next"'}
        return httpx2.Response(200, json=content, headers=headers)

    requests, asked = asking(page([1], "?before=2"), page([2], None))
    assert requests._pages("/v1/tasks") == [1, 2]
    assert asked == ["http://analyzer.test/v1/tasks", "http://analyzer.test/v1/tasks?before=2"]
    requests, asked = asking(page([1], "http://elsewhere.test/?before=2"))
    with pytest.raises(InvalidMessageError, match="somewhere else"):
        requests._pages("/v1/tasks")
    assert len(asked) == 1
