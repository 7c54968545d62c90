"""The references of a task's definition and of a specification, from their JSON schemas."""

from lintra_analysis.spec.specification import Specification, specifications
from lintra_protocol.mechanisms import MECHANISMS
from lintra_protocol.task import Task
from making.tables import model, prose


def task_page() -> str:
    """Return the page of the document that every party holds."""
    schema = Task.model_json_schema()
    return "\n".join([
        "# The task document\n",
        "A task is one JSON document that every party holds. Its identifier is the SHA-256 of its canonical",
        "form, so nobody can change it unseen. An analyst writes a [specification](specification.md), which",
        "is shorter; the analyzer calibrates it, adds keys and times, and signs the result.\n",
        prose(schema.get("description", "")),
        f"The member `mechanism` is one of: {', '.join(f'`{kind}`' for kind in sorted(MECHANISMS))}.\n",
        "## Members\n",
        model(schema, level=3),
    ])  # fmt: skip


def specification_page() -> str:
    """Return the page of what an analyst posts, with the options of every mechanism."""
    schema = Specification.model_json_schema()
    parts = [
        "# The specification of a task\n",
        "What an analyst sends to `POST /v1/tasks` or writes into a file for `lintra analyzer task create` and",
        "`lintra plan`. Everything that is left out is filled in by calibration.\n",
        prose(schema.get("description", "")),
        "## Members\n",
        model(schema, level=3),
        "## Mechanisms\n",
    ]
    for kind, options in sorted(specifications().items()):
        described = options.model_json_schema()
        parts.append(f"### `{kind}`\n\n{prose(described.get('description', ''))}{model(described, level=4)}")
    return "\n".join(parts)
