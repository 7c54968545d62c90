"""What tests share. The names below are in most tests; worlds, fakes and made releases have modules of their own.

| module | holds |
| --- | --- |
| `seeds`, `tasks`, `manifests` | keys, sources, small checked tasks, signed inventories and cohorts |
| `examples` | how property tests look for counterexamples |
| `fake_servers` | servers behind an HTTP transport, for the tests of the client |
| `server_world` | real servers in one process, or one real process |
| `analyzer_world`, `blocking` | an analyzer among real servers; blocking code against it |
| `made_releases`, `made_projected_sums` | releases with known rows behind them |
| `restore_model`, `store_model` | designs as machines whose states are all visited |
| `two_tails` | a second implementation that serves as an oracle |
"""

from support.examples import few
from support.manifests import signed_cohorts, signed_inventories
from support.seeds import SEED, identity, nonce, sealing_key, source
from support.tasks import NOT_AFTER, NOT_BEFORE, columns_of, make_task, uncalibrated

__all__ = [
    "NOT_AFTER",
    "NOT_BEFORE",
    "SEED",
    "columns_of",
    "few",
    "identity",
    "make_task",
    "nonce",
    "sealing_key",
    "signed_cohorts",
    "signed_inventories",
    "source",
    "uncalibrated",
]
