"""Fuzz one decoder, guided by the branches that inputs reach (atheris, libFuzzer).

    PYTHONPATH=tests .venv/bin/python -m fuzzing "a task" -runs=20000 -seed=1

An input that breaks the law is printed in hexadecimal, and the process ends with an error. The same input is tried
again with `--input HEX` in the place of the other options.
"""

import atexit
import random
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["lintra_protocol", "lintra_analysis", "lintra_analyzer", "lintra_client", "fuzzing.planted"]
):
    from fuzzing.decoders import UnlawfulError, decoders
    from fuzzing.planted import PLANTED
from fuzzing.mutations import mutated

LONGEST = 8192


def main(name: str, *options: str) -> None:
    """Try inputs until there were enough."""
    folder = Path(tempfile.mkdtemp(prefix="lintra-fuzzing-"))
    atexit.register(shutil.rmtree, folder)
    decoder = PLANTED if name == "a planted fault" else decoders(folder)[name]
    if options[:1] == ("--input",):
        decoder.check(bytes.fromhex(options[1]))
        return

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
    atheris.Setup(["fuzzing", f"-max_len={LONGEST}", *options], one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
