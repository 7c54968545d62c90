"""Many tasks in an analyzer's database, without servers: what lists and their pages are tried with."""

from collections.abc import Callable

from lintra_analyzer.storage.rows import EVERYBODY, StoredTask
from lintra_analyzer.storage.store import Store
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.task import Task
from support.analyzer_world import KEYS, NOW


def stored(task: Task, population: str = EVERYBODY) -> StoredTask:
    """Return a task as the analyzer's database holds it."""
    record = sign(KEYS.author, TaskRecord(definition=task)).canonical()
    return StoredTask(task.task_id, record, b"{}", NOW, population)


def add_tasks(store: Store, like: Task, count: int, population: Callable[[int], str] = lambda _: "ward 3") -> list[str]:
    """Store tasks that differ in their purpose; return their identifiers, the newest first."""
    made = []
    for number in range(count):
        task = like.model_copy(update={"purpose": f"purpose {number}"})
        store.add_task(stored(task, population(number)), task.num_servers, None)
        made.append(task.task_id)
    return made[::-1]
