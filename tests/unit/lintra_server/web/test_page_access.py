"""What a browser lets pages of other sites do with a server: what a client on a device does, and nothing else."""

from pathlib import Path

import httpx2
import pytest

from lintra_protocol.http.requests import media_type
from lintra_server.settings import PageAccess, Settings
from lintra_service.settings import InvalidSettingsError
from support.server_world import World, a_world, text, token

SITE = {"origin": "https://study.example"}


def open_resources(world: World) -> dict[str, str]:
    task = f"/v1/tasks/{world.task.task_id}"
    report = text(world.reports(1)[0])
    return {"/v1/keys": "GET", task: "GET", f"{task}/reports": "POST", f"{task}/batches/0/inclusion/{report}": "GET"}


def access(answer: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-") or name == "vary"}


async def test_a_page_may_read_every_answer_of_an_open_resource_refusals_too(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        allowed = {"access-control-allow-origin": "*", "access-control-expose-headers": "retry-after"}
        for path, method in open_resources(world).items():
            answer = await world.http[0].request(method, path, headers=SITE, content=b"")
            assert access(answer) == allowed, path
            asked = await world.http[0].options(path, headers=SITE)
            assert (asked.status_code, asked.content) == (204, b"")
            assert access(asked) == allowed | {
                "access-control-allow-methods": "GET, POST",
                "access-control-allow-headers": "content-type",
                "access-control-max-age": "86400",
            }
        refused = await world.http[0].get("/v1/tasks/" + "A" * 43, headers=SITE)
        assert (token(refused), access(refused)) == ("unrecognized_task", allowed)
        body = await world.body(0, world.reports(1))
        sent = {**SITE, "content-type": media_type("reports")}
        stored = await world.http[0].post(f"/v1/tasks/{world.task.task_id}/reports", content=body, headers=sent)
        assert (stored.status_code, access(stored)) == (200, allowed)


async def test_nothing_else_is_open_to_pages(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        task = f"/v1/tasks/{world.task.task_id}"
        closed = [
            ("PUT", task), ("POST", task), ("GET", f"{task}/reports"), ("GET", f"{task}/batches"), ("GET", "/v1"),
            ("GET", f"{task}/counters"), ("POST", f"{task}/batches/0/inventory"), ("GET", f"{task}/batches/0/cohort"),
            ("OPTIONS", f"{task}/batches/0/inventory"), ("OPTIONS", "/v1/keys/x"), ("GET", "/v1/keys/"),
        ]  # fmt: skip
        for method, path in closed:
            answer = await world.http[0].request(method, path, headers=SITE)
            assert (answer.status_code >= 400, access(answer)) == (True, {}), path


async def test_a_list_of_sites_lets_their_pages_in_and_an_empty_one_none(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        node = world.apps[0].node
        node.page_origins = ("https://study.example",)
        for path, method in open_resources(world).items():
            answer = await world.http[0].request(method, path, headers=SITE, content=b"")
            assert access(answer)["access-control-allow-origin"] == "https://study.example"
            for other in ({"origin": "https://other.example"}, {}):
                answer = await world.http[0].request(method, path, headers=other, content=b"")
                assert access(answer) == {"vary": "origin"}
        asked = await world.http[0].options("/v1/keys", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in asked.headers
        node.page_origins = ()
        assert access(await world.http[0].get("/v1/keys", headers=SITE)) == {}
        assert (await world.http[0].options("/v1/keys", headers=SITE)).status_code == 405


async def test_a_preflight_is_counted_and_leaves_no_line_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_world(tmp_path) as world:
        capsys.readouterr()
        await world.http[0].options("/v1/keys", headers=SITE)
        written = capsys.readouterr()
        assert written.out + written.err == ""
        assert b'resource="preflight",status="204"} 1.0' in world.apps[0].node.metrics.text()


@pytest.mark.parametrize("origins", [["study.example"], ["https://study.example/"], ["*"], "all", ["https://a b"]])
def test_an_origin_is_scheme_host_and_port(origins: object) -> None:
    with pytest.raises((InvalidSettingsError, ValueError)):
        Settings(public_url="https://a.test", pages=PageAccess.model_validate({"origins": origins}))
