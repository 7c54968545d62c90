"""Changing the storage root key: at a start, whatever is wrapped under a later key of the list goes under the first.

Afterwards the later ones can be taken off the list.
"""

from sqlalchemy import select, update

from lintra_server.storage.database import batches, sealing_keys, tasks
from lintra_server.storage.parts import Parts


def renew(parts: Parts) -> int:
    """Wrap everything under the first root key; return how much there was to do."""
    parts.folder.renew_journal_key(parts.vault)
    done = 0
    with parts.database.writing() as connection:
        for row in connection.execute(select(batches).where(batches.c.secret.is_not(None))).all():
            secret = parts.folder.secrets.get(row.secret)
            if secret is None:
                continue
            vault, number = parts.vault.under(secret), row.batch.to_bytes(8, "big")
            labels = {"wrapped_key": "batch key", "wrapped_nonce": "nonce"}
            values = {
                column: renewed
                for column, label in labels.items()
                if getattr(row, column) is not None
                and (renewed := vault.renewed(getattr(row, column), label, number)) is not None
            }
            if values:
                connection.execute(update(batches).where(batches.c.batch == row.batch).values(**values))
            done += len(values)
        for row in connection.execute(select(sealing_keys).where(sealing_keys.c.secret.is_not(None))).all():
            secret = parts.folder.secrets.get(row.secret)
            if secret is None:
                continue
            bound = row.suite.encode(), row.key_id
            renewed = parts.vault.under(secret).renewed(row.wrapped, "sealing key", *bound)
            if renewed is not None:
                change = update(sealing_keys).where(sealing_keys.c.key_id == row.key_id)
                connection.execute(change.values(wrapped=renewed))
                done += 1
        for row in connection.execute(select(tasks).where(tasks.c.wrapped_token_key.is_not(None))).all():
            renewed = parts.vault.renewed(row.wrapped_token_key, "token key", row.task_id)
            if renewed is not None:
                change = update(tasks).where(tasks.c.task == row.task)
                connection.execute(change.values(wrapped_token_key=renewed))
                done += 1
    return done
