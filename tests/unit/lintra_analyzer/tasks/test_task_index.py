"""A list of tasks is narrowed by words and by how they stand, in somebody's scope, a page at a time."""

from pathlib import Path

import pytest
import pytest_asyncio

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.rows import Job, ServerState
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.task_index import ARCHIVE_SECONDS, Group, IndexedTask, TaskIndex
from support.analyzer_world import NOW, living
from support.many_tasks import add_tasks, stored

END = NOW + 1000
ALL = Scope()


@pytest_asyncio.fixture
async def filled(tmp_path: Path):
    """Give a store with thirty tasks that every server took, the newest first, and one task like them."""
    async with living(tmp_path) as life:
        like = await life.create(purpose="the oldest")
        store = life.service.store
        made = add_tasks(store, like, 30, lambda number: ("north", "east", "south")[number % 3])
        for task_id in made:
            for server in range(like.num_servers):
                store.set_registration(task_id, ServerState(server, "accepted"))
        yield store, [*made, like.task_id], like


def found(
    store: Store,
    words: str = "",
    group: Group = "today",
    scope: Scope = ALL,
    now: int = NOW,
    before: int | None = None,
) -> list[str]:
    return [row.task_id for row in TaskIndex(store.listed).page(scope, words, group, now, before, 100)[0].rows]


async def test_all_words_must_be_in_purpose_population_or_mechanism_or_begin_the_identifier(filled) -> None:
    store, made, _ = filled
    assert found(store) == made
    assert found(store, "PURPOSE 7") == [made[29 - 27], made[29 - 17], made[29 - 7]]
    assert found(store, "purpose 7 east") == [
        task for task in found(store, "purpose 7") if task in found(store, "east")
    ]
    assert len(found(store, "south")) == 10
    assert found(store, "second_moment") == made
    assert found(store, made[3]) == found(store, made[3][:8]) == [made[3]]
    assert found(store, made[3][:7]) == []
    assert found(store, "no such thing") == []


async def test_a_scope_leaves_out_what_is_not_in_it_and_pages_follow_each_other(filled) -> None:
    store, made, _ = filled
    some = Scope(tasks=(made[0],), populations=("south",))
    assert set(found(store, scope=some)) == {made[0], *found(store, "south")}
    index, seen, before = TaskIndex(store.listed), [], None
    while True:
        page, counts = index.page(Scope(), "", "today", NOW, before, 7)
        seen += [row.task_id for row in page.rows]
        assert counts["today"] == 31
        if (before := page.following) is None:
            break
    assert seen == made


async def test_a_task_that_comes_later_is_found_and_one_that_cannot_be_read_breaks_nothing(filled) -> None:
    store, made, like = filled
    index = TaskIndex(store.listed)
    index.page(Scope(), "", "today", NOW, None, 5)
    late = like.model_copy(update={"purpose": "late"})
    store.add_task(stored(late), late.num_servers, None)
    broken = stored(like.model_copy(update={"purpose": "broken"}))
    store.add_task(type(broken)(broken.task_id, b"{", b"{}", NOW), like.num_servers, None)
    assert [row.task_id for row in index.page(Scope(), "late", "today", NOW, None, 5)[0].rows] == [late.task_id]
    page, _ = index.page(Scope(), "", "today", NOW, None, 5)
    assert [row.task_id for row in page.rows][:3] == [broken.task_id, late.task_id, made[0]]


async def test_groups_follow_jobs_servers_and_the_clock(filled) -> None:
    store, made, like = filled
    ends = like.not_after * like.time_precision
    for place, state in enumerate(("released", "failed", "waiting", "running")):
        store.set_job(Job(made[place], "inventory", state))  # type: ignore[arg-type]
    store.set_registration(made[4], ServerState(1, "refused"))
    assert found(store, group="released") == [made[0]]
    assert found(store, group="attention") == [made[1], made[2], made[4]]
    assert found(store, group="open") == [made[3], *made[5:]]
    assert len(found(store, group="attention", now=ends)) == 30
    assert found(store, group="archive", now=ends + ARCHIVE_SECONDS - 1) == []
    assert found(store, group="archive", now=ends + ARCHIVE_SECONDS) == made
    assert found(store, now=ends + ARCHIVE_SECONDS) == []


@pytest.mark.parametrize(("now", "group"), [(END - 1, "open"), (END, "released"), (END + ARCHIVE_SECONDS, "archive")])
def test_a_task_with_windows_is_open_until_it_ends_whatever_its_first_window_did(now: int, group: Group) -> None:
    task = IndexedTask(1, "t", "p", ends=END, has_windows=True)
    for state in (None, "released", "failed"):
        assert task.group(state, now, registered=True) == group
    assert IndexedTask(1, "t", "p", ends=None).group(None, 1 << 60, registered=True) == "open"
