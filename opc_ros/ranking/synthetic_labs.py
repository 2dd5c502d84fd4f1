"""Made-up labs for simulations: candidates of known success in four distributions, with scores of a chosen quality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtri

ShapeName = Literal["uniform", "near the top", "two clusters", "one star"]
SHAPE_NAMES: tuple[ShapeName, ...] = get_args(ShapeName)
CORRELATIONS = (0.95, 0.8, 0.5, 0.0)


@dataclass(frozen=True, slots=True)
class SyntheticLabs:
    """Many labs of one kind, each with its own candidates."""

    rates: np.ndarray  # (R, K) true success
    scores: np.ndarray  # (R, K)


def draw_labs(
    shape: ShapeName, correlation: float, labs: int, rng: np.random.Generator, *, candidates: int = 15
) -> SyntheticLabs:
    """Candidates in random order; scores have this Spearman correlation with success on average.

    The distributions are: success anywhere from 10 to 90 %; two thirds within 15 points of the best and the rest far
    below; half around 35 % and half around 75 %; or all between 60 and 70 % except one at 80 %.
    """
    rates = draw_rates(shape, labs, candidates, rng)
    return SyntheticLabs(rates, degrade_scores(rates, correlation, rng))


def draw_rates(shape: ShapeName, labs: int, candidates: int, rng: np.random.Generator) -> np.ndarray:
    """True success, (R, K)."""
    size = (labs, candidates)
    first = np.arange(candidates)
    if shape == "uniform":
        rates = rng.uniform(0.1, 0.9, size)
    elif shape == "near the top":
        is_near = first < (2 * candidates + 2) // 3
        rates = np.where(is_near, rng.uniform(0.7, 0.85, size), rng.uniform(0.2, 0.6, size))
    elif shape == "two clusters":
        rates = np.where(first < candidates // 2, rng.uniform(0.3, 0.4, size), rng.uniform(0.65, 0.85, size))
    else:
        rates = np.where(first == 0, 0.8, rng.uniform(0.6, 0.7, size))
    return rng.permuted(rates, axis=1)


def degrade_scores(rates: np.ndarray, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Scores with this rank correlation with the rates on average over labs, (R, K)."""
    candidates = rates.shape[1]
    ranks = rates.argsort(axis=1).argsort(axis=1)
    normal = ndtri((ranks + 0.5) / candidates)
    pearson = 2.0 * np.sin(np.pi * correlation / 6.0)  # of two normal variables with this rank correlation
    return np.asarray(pearson * normal + np.sqrt(1.0 - pearson**2) * rng.standard_normal(rates.shape))
