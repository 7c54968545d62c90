"""A server's store against an adversary that edits it, as a machine that is explored whole.

One honest server has a key folder, which nobody else can read or write, and a database, which an adversary edits
between any two of the server's moves: any cell, with any value that was ever stored. Analyzer, clients and all other
servers are the adversary's too, so requests come in any order. Keys, tags and hashes are symbols: nobody makes one
without the key, and two are equal only if all that went into them is.

| module | holds |
| --- | --- |
| `state` | what there is: database, key folder, memory, what was told to the outside; rules and bounds |
| `reading` | how the server finds a batch and reads its segments |
| `uploads` | registration, uploads, and the joining of segments |
| `steps` | closing, freezing, checks, verdicts, releases, looks |
| `operating` | starts, accepted losses, restores |
| `editing` | what the adversary does to the database |
| `laws` | what must never be, and the exploration |

What is left out, because it changes nothing here: N servers (all others are hostile), HPKE, the public matrix, serials
other than whether a token was spent, the two steps of a crash within a step (`support.restore_model` has them), and a
power cut, after which the last second of notes may be missing; the manual says that an editor can then hide it.
"""

from support.store_model.laws import Found, explore
from support.store_model.state import BREACHES, Bounds, Breach, Rules

__all__ = ["BREACHES", "Bounds", "Breach", "Found", "Rules", "explore"]
