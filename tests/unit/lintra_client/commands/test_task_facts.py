"""What people read of a task has labels; programs read the names of the fields."""

from lintra_client.commands.task_facts import facts, facts_in_words
from lintra_client.task_check import ClientPolicy
from support.tasks import make_task


def test_people_read_labels_and_programs_the_names_of_fields() -> None:
    task, policy = make_task("sum"), ClientPolicy()
    lines = list(facts_in_words(task, policy))
    assert len(lines) == len(facts(task, policy))
    assert [line for line in lines if "_" in line.partition(":")[0]] == []
    assert "max_corrupt_clients" in facts(task, policy)
    assert any(line.startswith("clients that may collude: ") for line in lines)
