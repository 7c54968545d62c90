"""Fuzz one decoder, guided by the branches that inputs reach (atheris, libFuzzer).

    PYTHONPATH=tests .venv/bin/python -m fuzzing "a task" -runs=20000 -seed=1

"all" in the place of a name fuzzes every decoder. An input that breaks the law is printed in hexadecimal, and the
process ends with an error. The same input is tried again with `--input HEX` in the place of the other options.
"""

import atexit
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import atheris

with atheris.instrument_imports(
    include=["lintra_protocol", "lintra_analysis", "lintra_analyzer", "lintra_client", "fuzzing.planted"]
):
    from fuzzing.decoder import Decoder, UnlawfulError
    from fuzzing.decoders import decoders
    from fuzzing.planted import PLANTED
from fuzzing.mutations import mutated

LONGEST = 8192


def main(name: str, *options: str) -> int:
    """Fuzz one decoder or, in a process of its own each, all of them; return 0 if nothing broke a law."""
    folder = Path(tempfile.mkdtemp(prefix="lintra-fuzzing-"))
    atexit.register(shutil.rmtree, folder)
    known = {**decoders(folder), "a planted fault": PLANTED}
    if options[:1] == ("--input",):
        known[name].check(bytes.fromhex(options[1]))
        return 0
    if name != "all":
        fuzz(name, known[name], options)
    broken = 0
    # What is imported once need not be imported by each.
    for each, decoder in known.items():
        if decoder is not PLANTED:
            child = os.fork()
            if not child:
                fuzz(each, decoder, options)
            _, status = os.waitpid(child, 0)
            sys.stderr.write(f"{'BROKEN' if status else 'held'}: {each}\n")
            broken += status != 0
    return broken


def fuzz(name: str, decoder: Decoder, options: Sequence[str]) -> NoReturn:
    """Try inputs until there were enough; the process ends then."""

    def one(data: bytes) -> None:
        try:
            decoder.check(data)
        except UnlawfulError as error:
            sys.stderr.write(f"UNLAWFUL {name}: {error}: {data.hex()}\n")
            raise

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return atheris.Mutate(data, max_size)
        base = data if len(data) > 1 else chance.choice(decoder.seeds)
        return mutated(base, decoder.seeds, chance, decoder.is_json)[:max_size]

    for seed in decoder.seeds:
        one(seed)
    longest = max(LONGEST, *(2 * len(seed) for seed in decoder.seeds))
    atheris.Setup(["fuzzing", f"-max_len={longest}", "-verbosity=0", *options], one, custom_mutator=change)
    atheris.Fuzz()
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
