"""One table of the race, split for good: releases, peers' rows, and how far rows are from those learnt from."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.synthetic.comparison import Standard, logistic_accuracy
from lintra_analysis.synthetic.fidelity import fidelity
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_curator import curator_claim, release_ron_gauss
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Neighbours
from race.tables import Table

WORKER = Path(__file__).resolve().parents[1] / "race_peer.py"
DELTA = 1e-6
ITERATIONS = {"mst": 1000, "aim": 200}
"""Steps of the peers' inference (their defaults are 5000 and 1000, which take hours here)."""
MODEL_MEGABYTES = 1
Score = dict[str, float]
Pairs = Literal["rule"] | tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Race:
    """One table, split for good; everybody learns from `train`."""

    table: Table
    train: FloatArray
    test: FloatArray
    peers: Path | None
    work: Path
    trees: bool

    @classmethod
    def of(cls, table: Table, peers: Path | None, work: Path, trees: bool) -> "Race":
        """Split four to one, every value moved inside its bounds."""
        low, high = table.bounds()
        order = np.random.default_rng(1).permutation(len(table.values))
        rows, cut = np.clip(table.values[order], low, high), len(order) * 4 // 5
        return cls(table, rows[:cut], rows[cut:], peers, work, trees)

    def release(self, epsilon: float, seed: int, neighbours: Neighbours, pairs: Pairs) -> ProjectedSums:
        """Return a release of the rows learnt from, with tables of these pairs of columns."""
        label = self.table.names[-1] if self.table.levels[-1] else None
        return release_ron_gauss(
            self.train,
            self.table.columns(),
            curator_claim(epsilon, DELTA, neighbours),
            expand(bytes([seed]) * 32, "race"),
            question=JointQuestion(label=label, pairs=pairs),
        )

    def coded_rows(self, model: GaussianModel, seed: int) -> FloatArray:
        """Return as many rows of a model as there were, categories by number."""
        rows = synthesize(model, len(self.train), seed)
        codes = [{level: number for number, level in enumerate(levels)} for levels in self.table.levels]
        return np.column_stack(
            [
                [code[value] for value in rows.columns[name].tolist()] if code else rows.columns[name]
                for name, code in zip(self.table.names, codes, strict=True)
            ]
        ).astype(np.float64)

    def peer(self, method: str, epsilon: float, seed: int) -> tuple[FloatArray, float] | None:
        """Return rows of a peer and the CPU seconds that they took; None if they are not there and nobody makes them.

        Raises:
            ValueError: those that are there were learnt from other rows.
        """
        given: dict[str, object] = {
            "cells": self.table.cells(self.train), "sizes": self.table.sizes(), "method": method, "epsilon": epsilon,
            "delta": DELTA, "seed": seed, "num_rows": len(self.train), "iterations": ITERATIONS[method],
            "model_size": MODEL_MEGABYTES,
        }  # fmt: skip
        name = f"{self.table.name}-{method}-{epsilon:g}-{seed}"
        if not (self.work / f"{name}.npz").exists() and self.peers is None:
            return None
        found = self._worker("fit", name, given)
        with np.load(self.work / f"{name}.in.npz", allow_pickle=False) as held:
            if any(not np.array_equal(held[what], np.asarray(given[what])) for what in given):
                raise ValueError(f"{name} was learnt from other rows: take another --work")
        cells = found["cells"].astype(np.int64)
        return self.table.from_cells(cells, np.random.default_rng(seed)), float(found["seconds"])

    def _worker(self, task: str, name: str, given: dict[str, object]) -> dict[str, FloatArray]:
        target = self.work / f"{name}.npz"
        if task == "trees" or not target.exists():
            source = self.work / f"{name}.in.npz"
            np.savez(source, **{key: np.asarray(value) for key, value in given.items()})
            command = [str(self.peers), str(WORKER), task, str(source), str(target)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(target, allow_pickle=False) as found:
            return dict(found)

    def with_train(self, train: FloatArray) -> "Race":
        """Return the same with other rows to learn from."""
        return replace(self, train=train)

    def together(self, rows: FloatArray, first: str, second: str) -> float:
        """Return the total variation of two columns together, by name, from the rows learnt from."""
        pair = self.table.names.index(first), self.table.names.index(second)
        return _pair_variation(self.table, rows, self.train, [pair])

    def score(self, rows: FloatArray, name: str = "") -> Score:
        """Return the measures of some rows."""
        found = {
            "correlations": _correlation_error(self.table, rows, self.train),
            "pairs": _pair_variation(self.table, rows, self.train),
            "linear": self._linear(rows),
        }
        if self.trees:
            (train, _), (test, _) = self.table.coded(rows[:, :-1]), self.table.coded(self.test[:, :-1])
            given: dict[str, object] = {"train": train, "target": rows[:, -1], "test": test, "truth": self.test[:, -1]}
            given["classify"] = bool(self.table.levels[-1])
            found["trees"] = float(self._worker("trees", f"{self.table.name}-trees-{name}", given)["score"])
        return found

    def _linear(self, rows: FloatArray) -> float:
        """Return R2, or accuracy, on the rows apart."""
        (train, _), (test, _) = self.table.coded(rows[:, :-1]), self.table.coded(self.test[:, :-1])
        target, truth = rows[:, -1], self.test[:, -1]
        if classes := len(self.table.levels[-1]):
            return logistic_accuracy((train, target.astype(np.int64)), (test, truth.astype(np.int64)), classes)
        standard = Standard.of(train)
        weights = np.linalg.lstsq(standard.design(train), target, rcond=None)[0]
        return 1 - float(np.mean((standard.design(test) @ weights - truth) ** 2) / truth.var())


def _correlation_error(table: Table, one: FloatArray, other: FloatArray) -> float:
    found = []
    for rows in (one, other):
        coded, owners = table.coded(rows)
        centred = coded - coded.mean(axis=0)
        length = np.linalg.norm(centred, axis=0)
        unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
        found.append(unit.T @ unit)
    apart = owners[:, np.newaxis] < owners
    return float(np.abs(found[0] - found[1])[apart].mean())


def _pair_variation(
    table: Table, one: FloatArray, other: FloatArray, chosen: Sequence[tuple[int, int]] | None = None
) -> float:
    sizes, cells = table.sizes(), [table.cells(rows) for rows in (one, other)]
    found = []
    for i, j in chosen or combinations(range(len(sizes)), 2):
        counts = [
            np.bincount(own[:, i] * sizes[j] + own[:, j], minlength=sizes[i] * sizes[j]) / len(own) for own in cells
        ]
        found.append(np.abs(counts[0] - counts[1]).sum() / 2)
    return float(np.mean(found))


def verdicts(race: Race, epsilon: float, seed: int) -> list[tuple[float, float]]:
    """Return for each pair of columns of a release without pair tables its stated error and the true one."""
    release = race.release(epsilon, seed, "replace-one", ())
    model = fit(release)
    rows = race.coded_rows(model, seed)
    order = {name: number for number, name in enumerate(race.table.names)}
    found = []
    for pair in fidelity(model).pairs:
        first, second = order[pair.first], order[pair.second]
        with np.errstate(invalid="ignore"):
            own, true = (np.corrcoef(table[:, first], table[:, second])[0, 1] for table in (rows, race.train))
        found.append((pair.error, abs(float(np.nan_to_num(own)) - float(np.nan_to_num(true)))))
    return found
