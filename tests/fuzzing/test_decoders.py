"""Whatever a stranger sends, a decoder reads it exactly or refuses it in words: seeds, found inputs and changed ones.

The slow tests are guided by the branches that inputs reach; an input that they print is tried again with

    PYTHONPATH=tests .venv/bin/python -m fuzzing "NAME OF THE DECODER" --input HEX
"""

import io
import json
import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fuzzing.decoder import MOST_BYTES, Decoder, UnlawfulError
from fuzzing.decoders import decoders
from fuzzing.mutations import mutated
from lintra_protocol.cohort.report_ids import decode_positions

HERE = Path(__file__).parent
with tempfile.TemporaryDirectory() as folder:
    NAMES = list(decoders(Path(folder)))
FOUND: dict[str, list[str]] = json.loads((HERE / "found.json").read_text())
"""Inputs in hexadecimal that broke a decoder once."""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Decoder]:
    return decoders(tmp_path_factory.mktemp("files"))


CHANGES = 100
RUNS, MOST_SECONDS = 20_000, 15


def test_every_seed_is_good_and_no_found_input_breaks_its_decoder_again(known: dict[str, Decoder]) -> None:
    assert {name for name, decoder in known.items() if not all(map(decoder.check, decoder.seeds))} == set()
    for name, inputs in FOUND.items():
        assert [known[name].check(bytes.fromhex(text)) for text in inputs] == [False] * len(inputs)


@pytest.mark.parametrize("name", NAMES)
def test_changed_inputs_are_read_exactly_or_refused(name: str, known: dict[str, Decoder]) -> None:
    decoder, chance = known[name], random.Random(name)
    good = 0
    for _ in range(CHANGES):
        good += decoder.check(mutated(chance.choice(decoder.seeds), decoder.seeds, chance, decoder.is_json))
    assert good < CHANGES


def test_a_decoder_that_takes_two_spellings_is_found(
    known: dict[str, Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lenient(data: bytes):  # type: ignore[no-untyped-def]
        return decode_positions(data.replace(b"\x80\x00", b"\x00"))

    monkeypatch.setattr("fuzzing.decoders.decode_positions", lenient)
    chance, decoder = random.Random(1), known["positions"]
    inputs = [mutated(chance.choice(decoder.seeds), decoder.seeds, chance, is_json=False) for _ in range(5_000)]
    with pytest.raises(UnlawfulError, match="other bytes"):
        sum(map(decoder.check, inputs))


def test_a_decoder_that_takes_memory_without_bound_is_found() -> None:
    greedy = Decoder(lambda data: bytes(MOST_BYTES * len(data)) and None, [b"x"])
    with pytest.raises(UnlawfulError, match="MemoryError"):
        greedy.check(b"xx")


def test_an_archive_that_unfolds_to_more_than_its_record_describes_is_refused_unread(known: dict[str, Decoder]) -> None:
    bomb = io.BytesIO()
    np.savez_compressed(bomb, sketch=np.zeros((2, 30_000), np.int64), row_counts=np.zeros(2, np.int64))
    assert len(bomb.getvalue()) < 2000
    tracemalloc.start()
    try:
        assert not known["an archived release"].check(bomb.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def fuzzed(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fuzzing", name, *options]
    folders = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": folders}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris, which guides by coverage, has no wheel here")
def test_inputs_guided_by_coverage_are_read_exactly_or_refused(tmp_path: Path) -> None:
    done = fuzzed("all", f"-runs={RUNS}", "-seed=1", f"-max_total_time={MOST_SECONDS}", f"-artifact_prefix={tmp_path}/")
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.removeprefix("held: ") for line in done.stderr.splitlines() if line.startswith("held: ")] == NAMES


@pytest.mark.slow
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris, which guides by coverage, has no wheel here")
def test_a_fault_behind_several_branches_is_found_by_coverage(tmp_path: Path) -> None:
    done = fuzzed("a planted fault", "-runs=200000", "-seed=1", f"-artifact_prefix={tmp_path}/")
    assert "UNLAWFUL a planted fault: KeyError" in done.stderr
    assert done.returncode != 0
