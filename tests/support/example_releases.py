"""The releases that the examples in docstrings are about, made by a real analyzer and real servers in one process."""

from collections.abc import Sequence

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from support.analyzer_world import Life, seeded

PEOPLE = 240

FLIGHTS = [
    {"name": "hour", "lower": 0, "upper": 24},
    {"name": "distance", "lower": 0, "upper": 3000, "unit": "miles"},
    {"name": "delay", "lower": -60, "upper": 180, "unit": "min"},
]
ADULTS = [{"name": "age", "lower": 18, "upper": 90, "kind": "integer"}, {"name": "income", "lower": 0, "upper": 200}]


def flights() -> FloatArray:
    """Return hour, distance and delay; a flight is later by 12 minutes an hour."""
    generator = np.random.default_rng(1)
    hour, distance = generator.uniform(4, 20, PEOPLE), generator.uniform(200, 2800, PEOPLE)
    return np.column_stack([hour, distance, 12 * (hour - 12) + 60 + generator.normal(0, 5, PEOPLE)])


def adults() -> FloatArray:
    """Return age and income."""
    generator = np.random.default_rng(2)
    return np.column_stack([generator.integers(20, 80, PEOPLE), generator.uniform(20, 150, PEOPLE)])


AGES = [{"name": "age", "lower": 18, "upper": 90, "kind": "integer"}, {"name": "smoker", "kind": "boolean"}]


def ages() -> FloatArray:
    """Return age and whether somebody smokes."""
    generator = np.random.default_rng(3)
    return np.column_stack([generator.integers(20, 80, PEOPLE), generator.random(PEOPLE) < 0.2]).astype(np.float64)


def smokers() -> FloatArray:
    """Return age and whether somebody smokes, which the old do more often."""
    generator = np.random.default_rng(4)
    age = generator.integers(20, 80, PEOPLE)
    return np.column_stack([age, generator.random(PEOPLE) < (age - 10) / 80]).astype(np.float64)


RELAPSES = [
    {"name": "months", "lower": 0, "upper": 60},
    {"name": "relapse", "kind": "boolean"},
    {"name": "arm", "kind": "category", "levels": ["A", "B"]},
]
LIVES = {"kind": "histogram", "survival": {"time": "months", "event": "relapse", "end": 36}}


def relapses() -> FloatArray:
    """Return months until a relapse or the last visit, whether it was one, and the arm; relapses are rarer in arm B."""
    generator = np.random.default_rng(6)
    arm = generator.integers(0, 2, PEOPLE)
    relapse, visit = generator.exponential(np.array([20, 60])[arm]), generator.uniform(6, 60, PEOPLE)
    return np.column_stack([np.minimum(relapse, visit), relapse <= visit, arm]).astype(np.float64)


WAVE = {"kind": "range_finder", "rank": 18, "intervals": True, "targets": [{"column": "power"}], "clip_count_weight": 0}
SENSORS = [*({"name": f"sensor {i}", "lower": -1, "upper": 1} for i in range(35)), {"name": "power"}]
SENSORS[-1] |= {"lower": -1, "upper": 1}


def sensors() -> FloatArray:
    """Return 35 sensors that follow one wave, and the power that drives it; as many rows as one block takes."""
    generator = np.random.default_rng(5)
    power = generator.uniform(-0.4, 0.4, (180, 1))
    waves = power * np.sin(np.arange(1, 36)) + generator.normal(0, 0.01, (180, 35))
    return np.hstack([waves, power])


async def released(life: Life, columns: Sequence[object], rows: FloatArray, mechanism: dict[str, object]) -> str:
    """Collect rows, release them, and return the identifier of the release."""
    asked = {"columns": columns, "mechanism": mechanism, "row_bound": 1.7, "epsilon": 8, "delta": 1e-6}
    if mechanism["kind"] == "ron_gauss":
        del asked["row_bound"]
    if mechanism["kind"] == "histogram":
        asked["row_bound"] = None
    task = await life.create(**asked, min_clients=len(rows) - 20)
    await life.upload(task, rows=[(row, seeded(f"example {number}")) for number, row in enumerate(rows)])
    return await life.release(task)


async def example_releases(life: Life) -> dict[str, str]:
    """Return the identifiers of the releases by the names that the examples have for them; `flights` is the newest."""
    return {
        "ages": await released(life, AGES, ages(), {"kind": "histogram", "cells": 12}),
        "relapses": await released(life, RELAPSES, relapses(), LIVES),
        "people": await released(life, ADULTS, adults(), {"kind": "ron_gauss", "bins": 4}),
        "smokers": await released(life, AGES, smokers(), {"kind": "second_moment", "intercept": 0.8}),
        "smoking": await released(life, AGES, smokers(), {"kind": "newton_step", "rounds": 3}),
        "sensors": await released(life, SENSORS, sensors(), WAVE),
        "flights": await released(life, FLIGHTS, flights(), {"kind": "second_moment", "intercept": 0.8}),
    }
