"""The commands about models: made, followed to the end, listed, shown and ended from a terminal."""

import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer import cli
from lintra_analyzer.commands import asking
from support.analyzer_world import TOKEN, living, specification
from support.blocking import Bridge, Loop
from unit.lintra_analyzer.tasks.test_models import people, wish


def test_a_model_is_made_followed_and_printed_in_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    context = living(tmp_path)
    life: Any = loop.run(context.__aenter__())
    file, bad = tmp_path / "smoking.json", tmp_path / "bad.json"
    file.write_text(json.dumps(wish(1)))
    bad.write_text(json.dumps(specification("sum")))

    looks = itertools.count()

    def answers(_seconds: float) -> None:
        """Let people answer the last round, and the analyzer look at its models, while the command waits."""
        assert next(looks) < 8, "the model does not end"
        task_id = life.service.models.show(life.service.store.open_models()[0].task_id).rounds[-1].task_id
        loop.run(life.upload(life.service.task(task_id), rows=people(label=task_id)))
        loop.run(life.release(life.service.task(task_id)))
        loop.run(life.service.models.look())

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(cli.app, ["model", *words, "--token", TOKEN])

    try:
        bridge = Bridge(life, loop)
        monkeypatch.setattr(asking, "connect", lambda url, token: AnalyzerClient(url, token, transport=bridge))
        clock = SimpleNamespace(sleep=answers, monotonic=time.monotonic)
        monkeypatch.setattr("lintra_analysis.access.model_client.time", clock)
        ran = invoke("run", str(file), "--windows", "2")
        task_id = json.loads(invoke("list", "--json").stdout)[0]["task_id"]
        shown, again = invoke("show", task_id), invoke("follow", task_id, "--json")
        refused, other = invoke("run", str(bad)), invoke("run", str(file))
        made = life.service.models
        second: Any = loop.run(made.create(life.service.models.show(task_id).specification, 2, "another"))
        stopped = invoke("stop", second.task_id)
    finally:
        loop.run(context.__aexit__(None, None, None))
        loop.close()
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert "Logistic regression of c in at most 2 rounds: a test" in ran.stdout
    assert "Ended: all 2 windows are over." in ran.stdout
    assert "odds ratio" in ran.stdout
    assert "round 2 of at most 2" in ran.stderr
    assert shown.stdout.splitlines()[0] in ran.stdout
    assert json.loads(again.stdout)["kind"] == "logit"
    assert (refused.exit_code, other.exit_code) == (1, 1)
    assert "newton_step is one" in refused.stderr
    assert "several rounds" in other.stderr
    assert stopped.stdout == "an analyst ended it\n"
