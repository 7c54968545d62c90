"""How a task stands as a picture: its steps, and a bar of reports."""

from lintra_analyzer.storage.rows import Job
from lintra_analyzer.tasks.report_counts import ReportCount
from lintra_analyzer.web.console.stages import reports_bar, steps_of
from lintra_analyzer.web.console.task_text import standing_of
from support.analyzer_world import NOW, Life


async def test_steps_say_what_is_under_way_and_what_failed(life: Life) -> None:
    task = await life.create()

    def steps(job: Job | None) -> list[tuple[str, str]]:
        states = life.service.store.registrations(task.task_id)
        return [(one.name, one.progress) for one in steps_of(task, standing_of(task, states, job, NOW), job, {})]

    names = ["made", "collected", "frozen", "released"]
    assert steps(None) == list(zip(names, ["done", "now", "later", "later"], strict=True))
    problem: dict[str, str | int | bool] = {"title": "Away", "detail": ""}
    for job, shown in (
        (Job(task.task_id, "inventory", "waiting", problem), ["done", "now", "later", "later"]),
        (Job(task.task_id, "cohort", "running"), ["done", "done", "now", "later"]),
        (Job(task.task_id, "aggregate", "running"), ["done", "done", "done", "now"]),
        (Job(task.task_id, "aggregate", "failed", problem), ["done", "done", "done", "failed"]),
        (Job(task.task_id, "released", "released", None, "r"), ["done"] * 4),
    ):
        assert [progress for _, progress in steps(job)] == shown, job


async def test_a_bar_is_full_and_no_longer_when_more_came_than_are_needed(life: Life) -> None:
    task = await life.create()
    bar = reports_bar(task, ReportCount(NOW - 7200, 500), NOW)
    assert bar is not None
    assert (bar.value, bar.most, bar.enough) == (12, 12, True)
    assert bar.text == "500 of 12 reports; asked 2 hours ago, and servers count once in 1 hour"
    assert reports_bar(task, ReportCount(NOW, None), NOW) is None
