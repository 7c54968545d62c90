"""Changing the storage root key: at a start, whatever is wrapped under a later key of the list goes under the first.

Afterwards the later ones can be taken off the list.
"""

from sqlalchemy import select, update

from lintra_server.disk.journal import BatchId
from lintra_server.storage.database import tasks
from lintra_server.storage.parts import Parts
from lintra_server.storage.tasks import TOKEN_KEY
from lintra_service.settings import InvalidSettingsError


def renew(parts: Parts) -> int:
    """Wrap everything under the first root key; return how much there was to do."""
    parts.folder.renew_journal_key(parts.vault)
    if not parts.vault.is_changing:
        return 0  # there may be thousands of files, and all are under the only key
    done = sum(_renewed(parts, history.batch) for history in parts.history.batches.values() if not history.is_destroyed)
    done += sum(parts.sealing_keys.renew(name, name) for name in parts.sealing_keys.names())
    places = {task.place: task_id for task_id, task in parts.history.tasks.items()}
    with parts.database.writing() as connection:
        query = select(tasks.c.task, tasks.c.wrapped_token_key).where(tasks.c.wrapped_token_key.is_not(None))
        for place, wrapped in connection.execute(query).all():
            try:
                renewed = parts.vault.renewed(wrapped, TOKEN_KEY, places[place]) if place in places else None
            except InvalidSettingsError:
                continue  # it was changed; whoever needs it is told
            if renewed is not None:
                connection.execute(update(tasks).where(tasks.c.task == place).values(wrapped_token_key=renewed))
                done += 1
    return done


def _renewed(parts: Parts, batch: BatchId) -> bool:
    try:
        return parts.batch_keys.renew(batch.name, *batch.bound)
    except InvalidSettingsError:
        return False  # it was changed; whoever needs it is told
