"""`lintra plan SPEC.json`: the errors to expect of a task, from a public sample or from its ranges alone."""

import json
import time
from pathlib import Path

import typer

from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.foresight import foresee
from lintra_analysis.trial.plan_text import document, show
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.randomness import system_randomness


def plan_file(specification: Path, public_sample: Path | None, target: str | None, *, as_json: bool) -> None:
    """Print what to expect of the task that a specification asks for.

    Raises:
        InvalidTaskError: the file cannot be read, is no JSON object, or asks for no possible task.
        InvalidRowError: the sample does not fit.
    """
    try:
        asked = json.loads(specification.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidTaskError(f"{specification}: {error}") from None
    if not isinstance(asked, dict):
        raise InvalidTaskError(f"{specification}: a specification is a JSON object")
    sample = None if public_sample is None else read_table(public_sample)
    found = foresee(asked, sample, target, int(time.time()), system_randomness)
    text = json.dumps(document(found), ensure_ascii=False, allow_nan=False) + "\n" if as_json else show(found)
    typer.echo(text, nl=False)
