"""The audit of organisations: two worlds that differ in one person, hostile persons, and the ledger's charges."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np

from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.release.checks import Check, squared_distance_of
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.likelihood_test import OptimalTest, likelihood_ratio
from lintra_audit.trials.neighbours import Pair
from lintra_audit.trials.organisations import THE_ORGANISATION, File, exact_contribution
from lintra_audit.trials.simulated_release import Draw, Scene, Seams
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.layout import ROWS
from lintra_protocol.task import Task

MOST_HOSTILE = 64
"""Most rows of a hostile person."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Contributions:
    """Organisations of which one person changes, in as many honest ones as a person may have rows in."""

    case: Case

    @property
    def _held(self) -> Contributors:
        held = self.case.task.contributors
        if held is None:
            raise ValueError("the task's reports are single rows")
        return held

    @property
    def _counts_null_rows(self) -> bool:
        """Whether a neighbour's rows are null and counted; else the person is absent."""
        return self._held.count == "exact" and self.case.task.claim.neighbours == "zero-out"

    def admit(self, seams: Seams) -> None:
        """Refuse a task that breaks a rule, and a file that breaks the task's."""
        task = self.case.task
        seams.admit(task)
        for organisation, file in enumerate(self._others(limited=False)):
            seams.contribute(task, organisation, file, 1, expand(bytes(32), "admitted"))

    def draw(self, scene: Scene, world: int, seams: Seams, *, near: bool) -> Draw:
        """Return how all organisations' reports of a world are drawn, of the farthest persons or of near ones."""
        task, files = self.case.task, (self.near_files if near else self.far_files)(scene)[world]

        def draw(runs: int, random_bytes: RandomBytes) -> IntArray:
            reports = [seams.contribute(task, k, file, runs, random_bytes) for k, file in enumerate(files)]
            return np.stack(reports, axis=1)

        return draw

    def test(self, scene: Scene) -> OptimalTest:
        """Form the adversary's optimal test, from the files of all other persons, which it knows."""
        layout = self.case.task.measurement.layout
        files = [[world[k] for k in scene.honest] for world in self.far_files(scene)]
        sums = [sum(exact_contribution(self.case.task, file) for file in world) for world in files]
        first, second = (np.asarray(total)[: layout.num_noised] for total in sums)
        found = likelihood_ratio(
            scene.columns[..., scene.honest],
            scene.columns[..., scene.victim],
            (np.zeros_like(first), second - first),
            (first + second)[np.newaxis] / 2.0,
            layout.sigmas[: layout.num_noised],
        )
        beside = ((0, 0), (0, int(ROWS in layout)))
        return replace(found, weights=np.pad(found.weights, beside), midpoint=np.pad(found.midpoint, beside))

    def checks(self, seams: Seams) -> list[Check]:
        """Return the exact checks: how far hostile persons move a sum, and what persons are charged."""
        return [self._encoder(seams), self._ledger(seams)]

    # --- worlds ------------------------------------------------------------------------------------------------

    def far_files(self, scene: Scene) -> tuple[list[File], list[File]]:
        """Return all organisations' files in both worlds: the farthest persons there are.

        In world 0 the person has other rows, is absent, or has null rows, which are counted if the count is exact.
        """
        held, pair = self._held, AUDITS[self.case.task.mechanism.kind].farthest(self.case.task)
        rows = min(held.rows_per_person, held.max_rows)
        first, second = (np.tile(row, (rows, 1)) for row in pair)
        worlds = self._others(), self._others()
        for place in scene.honest[: held.organisations_per_person]:
            worlds[1][place] = worlds[1][place].with_person(second)
            if self.case.task.claim.neighbours == "replace-one":
                worlds[0][place] = worlds[0][place].with_person(first)
            elif self._counts_null_rows:
                worlds[0][place] = replace(worlds[0][place], null_rows=rows)
        return worlds

    def near_files(self, scene: Scene) -> tuple[list[File], list[File]]:
        """Return files that differ as little as possible in one row of one person; no test may tell them apart."""
        pair: Pair = AUDITS[self.case.task.mechanism.kind].nearest(self.case.task)
        worlds = self._others(), self._others()
        for world, row in zip(worlds, pair, strict=True):
            world[scene.victim] = world[scene.victim].with_person(row[np.newaxis])
        return worlds

    def _others(self, *, limited: bool = True) -> list[File]:
        """Return the files of all organisations without the person: each has one row more than the one before.

        With `limited` no more than the task has room for, beside the person.
        """
        task, held = self.case.task, self._held
        room = held.max_rows - min(held.rows_per_person, held.max_rows)
        files = []
        for organisation in range(self.case.num_clients):
            wanted = self.case.others + organisation
            rows = np.zeros((min(wanted, room) if limited or not self.case.must_refuse else wanted, task.num_columns))
            rows[:, -1] = float(task.mechanism.row_bound) / 2
            files.append(File.of_persons(rows))
        return files

    # --- exact checks ------------------------------------------------------------------------------------------

    def _encoder(self, seams: Seams) -> Check:
        """Let hostile persons contribute and measure, in integers, how far apart they move an organisation's sum.

        A report less that of an empty file under the same randomness is the encoding without noise. What is released
        exactly must be the same for any two neighbours.
        """
        task, mechanism = self.case.task, self.case.task.mechanism
        layout = task.measurement.layout
        sigmas = layout.sigmas[: layout.num_noised]
        weights = [Fraction(mechanism.sigma**2, int(sigma) ** 2) for sigma in sigmas]
        farthest, counted = Fraction(0), True
        for one, other in self._hostile_pairs(seams):
            farthest = max(farthest, squared_distance_of(one[: sigmas.size], other[: sigmas.size], weights))
            counted &= one[sigmas.size :].tolist() == other[sigmas.size :].tolist()
        allowed = mechanism.squared_distance(task.claim.neighbours, task.num_columns, task.setting)
        told = f"hostile persons reach {float(farthest / allowed) ** 0.5:.6f} of the sensitivity"
        said = told if counted else f"{told}, and move an exact count"
        return Check("encoder", farthest <= allowed and counted, said)

    def _hostile_pairs(self, seams: Seams) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the noiseless contributions of any two neighbours."""
        task, held = self.case.task, self._held
        nobody = File.of_persons(np.zeros((0, task.num_columns)))

        def encoded(file: File) -> IntArray:
            own, other = expand(bytes(32), "encoder check"), expand(bytes(32), "encoder check")
            # Dithering comes before noise and reads more of the one stream than of the other, which has no rows.
            other(_dithering_bytes(task, file))
            exact: IntArray = (
                seams.contribute(task, 0, file, 1, own)[0] - seams.contribute(task, 0, nobody, 1, other)[0]
            )
            return exact

        persons = [rows for rows in self._hostile_persons() if len(rows) <= held.max_rows]
        with np.errstate(over="ignore"):
            encodings = [encoded(nobody.with_person(rows)) for rows in persons]
        if task.claim.neighbours == "replace-one":
            # Under an exact count a person has one row before and one after.
            absent = [] if held.count == "exact" else [encoded(nobody)]
            yield from combinations([*absent, *encodings], 2)
            return
        for rows, one in zip(persons, encodings, strict=True):
            yield one, encoded(replace(nobody, null_rows=len(rows) * self._counts_null_rows))

    def _hostile_persons(self) -> Iterator[FloatArray]:
        """Yield the rows of persons who try to leave the bounds: one row, as many as may be, alike and mixed."""
        task = self.case.task
        hostile = AUDITS[task.mechanism.kind].hostile(task.mechanism, task.num_columns)
        lacking = hostile[:1].copy()
        lacking[0, 0] = np.nan
        rows = np.concatenate([hostile, lacking])
        most = min(self._held.rows_per_person, MOST_HOSTILE)
        for place in range(len(rows)):
            yield rows[place : place + 1]
            if most > 1:
                yield np.repeat(rows[place : place + 1], most, axis=0)
                yield np.roll(rows, -place, axis=0)[np.arange(most) % len(rows)]

    def _ledger(self, seams: Seams) -> Check:
        """Charge two persons, and compare with what replacing one of them moves at the noise that there is."""
        task, mechanism = self.case.task, self.case.task.mechanism
        persons = ("a person", "another person")
        charged = seams.charge(task, persons)
        replaced = task.claim.model_copy(update={"neighbours": "replace-one"})
        distance = replace(task.measurement, claim=replaced).squared_distance
        honest = task.claim.min_clients - task.claim.max_corrupt_clients
        moved = sqrt(distance / honest) / mechanism.sigma
        least = min(charged.get(name, 0.0) for name in persons)
        alone = charged.get(THE_ORGANISATION, 0.0)
        said = f"persons are charged mu {least:.4f} for {moved:.4f}, the organisation {alone:.4f}"
        return Check("ledger", least >= moved * (1 - _ROUNDING) and alone == 0, said)


def _dithering_bytes(task: Task, file: File) -> int:
    """Return how many random bytes the rounding of a file reads."""
    read = 0

    def count(size: int) -> bytes:
        nonlocal read
        read += size
        return bytes(size)

    exact_contribution(task, file, count)
    return read
