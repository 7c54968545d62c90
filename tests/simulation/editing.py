"""What happens to servers whose databases somebody edits, beside what happens to every server."""

from simulation.editor import edit, edit_standing, edit_stopped, edit_while_closing, refused_commit, trigger
from simulation.faults import Fault, an_hour, back_up, crash, failover, mended, old_copy, terminate

EDITING: dict[Fault, float] = {
    edit: 12,
    edit_stopped: 3,
    edit_while_closing: 2,
    edit_standing: 1,
    trigger: 2,
    refused_commit: 2,
    crash: 2,
    terminate: 2,
    back_up: 1,
    old_copy: 1,
    failover: 1,
    mended: 2,
    an_hour: 1,
}
"""How often each happens, relative to the others."""

FOUND_BY_EDITS = ("edit", "edit while stopped", "edit while closing", "edit of journal or version", "trigger")
"""What counts as one edit."""
