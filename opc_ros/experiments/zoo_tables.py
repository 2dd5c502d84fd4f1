"""Scores and real outcomes of the zoo's candidates in each world, and Pong's, as measured by the experiments."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORLDS = ("train", "test", "pseudo_real")
FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True)
class ZooTable:
    """Candidates of one world with their scores and results."""

    world: str
    names: tuple[str, ...]
    families: tuple[str, ...]
    scores: np.ndarray  # (K,)
    successes: np.ndarray  # (K,)
    trials: np.ndarray  # (K,)


def read_zoo_table(world: str, metric: str = "soft_opc_over_spread") -> ZooTable:
    """One world's table, with the chosen score."""
    with (FOLDER / f"zoo_{world}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return ZooTable(
        world=world,
        names=tuple(row["name"] for row in rows),
        families=tuple(row["family"] for row in rows),
        scores=np.array([float(row[metric]) for row in rows]),
        successes=np.array([int(row["successes"]) for row in rows]),
        trials=np.array([int(row["trials"]) for row in rows]),
    )


def read_pong_success() -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the 108 Pong candidates and the share of points each won without stickiness, (108,)."""
    with (FOLDER / "pong.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = tuple(f"{row['variant']}-{row['checkpoint']}" for row in rows)
    return names, np.array([float(row["success"]) for row in rows])
