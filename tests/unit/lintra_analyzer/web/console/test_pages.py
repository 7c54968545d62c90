"""Every page of the console: what its headers allow, and that no template steps outside."""

import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from lintra_analyzer.web.console.pages import POLICY, STATIC, TEMPLATES
from support.analyzer_world import Life

TEMPLATE_FILES = sorted(TEMPLATES.glob("*.html"))
# A style or a program inside a page, or a handler in an attribute: the policy would refuse all of them.
INSIDE = re.compile(
    r"<style|\sstyle\s*=|<script(?![^>]*\ssrc=)|\son\w+\s*=|hx-on|javascript:|hx-vals=.js", re.IGNORECASE
)
ELSEWHERE = re.compile(r"""(?:src|href|action|hx-\w+)\s*=\s*["']?(?:https?:)?//""", re.IGNORECASE)


def test_the_policy_allows_nothing_unsafe_and_no_other_origin() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert set(rules.values()) == {"'none'", "'self'"}


@pytest.mark.parametrize("path", TEMPLATE_FILES, ids=lambda path: path.name)
def test_a_template_holds_no_style_no_program_and_no_other_address(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not INSIDE.search(text)
    assert not ELSEWHERE.search(text)
    assert "|safe" not in text.replace(" ", "")


@pytest.mark.parametrize(
    "text",
    ['<p style="color: red">', "<style>p {}</style>", "<script>go()</script>", '<a onclick="go()">', "<p hx-on:a=b>"],
)
def test_what_a_template_may_not_hold_is_found(text: str) -> None:
    assert INSIDE.search(text)


async def test_pages_carry_the_policy_whether_they_answer_or_refuse(life: Life) -> None:
    async with life.rest() as rest, life.rest(None) as stranger:
        nowhere = await rest.post("/tokens/x/revocation", headers={"origin": "http://analyzer.test"})
        assert (nowhere.status_code, (await stranger.get("/")).headers["content-security-policy"]) == (404, POLICY)
        for answer in (await rest.get("/"), nowhere, await stranger.get("/sign-in"), await stranger.post("/sign-in")):
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_the_files_that_pages_name_are_served(life: Life) -> None:
    async with life.rest() as rest:
        text = (await rest.get("/")).text
        named = re.findall(r'(?:href|src)="(/static/[^"]+)"', text)
        assert len(named) == 3
        for path in named:
            answer = await rest.get(path)
            assert answer.content == (STATIC / path.removeprefix("/static/")).read_bytes()
        assert (await rest.get("/static/../pages.py")).status_code == 404


def test_templates_and_files_are_part_of_the_wheel() -> None:
    root = STATIC.parents[4]
    packed = {str(file.distribution_path) for file in WheelBuilder(str(root)).recurse_selected_project_files()}
    wanted = {file.relative_to(root / "analyzer").as_posix() for file in STATIC.parent.rglob("*.*")}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert {Path(name).suffix for name in wanted} >= {".py", ".html", ".css", ".js"}
    assert wanted <= packed


async def test_a_hostile_purpose_is_text(life: Life) -> None:
    await life.create(purpose="<script>alert(1)</script>\"'&")
    async with life.rest() as rest:
        text = (await rest.get("/")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;" in text
    assert "<script>alert" not in text
