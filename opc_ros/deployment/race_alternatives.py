"""Alternatives to the race for comparison: equal allocation, halving, Thompson sampling, the best score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Chooser = Callable[[np.ndarray, np.ndarray, int, int, np.random.Generator], np.ndarray]


def choose_best_scored(
    scores: np.ndarray, rates: np.ndarray, budget: int, batch: int, rng: np.random.Generator
) -> np.ndarray:
    """Run nothing: the highest score wins, (R,)."""
    return np.asarray(scores.argmax(axis=1))


def choose_by_equal_allocation(
    scores: np.ndarray, rates: np.ndarray, budget: int, batch: int, rng: np.random.Generator
) -> np.ndarray:
    """Run all equally often; the most successes win, and ties are broken at random."""
    won = rng.binomial(budget // rates.shape[1], rates)
    return np.asarray((won + rng.random(won.shape)).argmax(axis=1))


def choose_by_successive_halving(
    scores: np.ndarray, rates: np.ndarray, budget: int, batch: int, rng: np.random.Generator
) -> np.ndarray:
    """In each round the remaining candidates share an equal part of the budget, and the worse half drops out."""
    rivals = rates.shape[1]
    rounds = int(np.ceil(np.log2(rivals)))
    successes, trials = np.zeros(rates.shape), np.zeros(rates.shape)
    is_left = np.ones(rates.shape, dtype=bool)
    left = rivals
    for _ in range(rounds):
        each = budget // (rounds * left)
        successes += np.where(is_left, rng.binomial(each, rates), 0)
        trials += np.where(is_left, each, 0)
        left = (left + 1) // 2
        rate = np.where(is_left, (successes + 1e-6 * rng.random(rates.shape)) / np.maximum(trials, 1), -1.0)
        places = np.argsort(np.argsort(-rate, axis=1), axis=1)
        is_left = places < left
    return np.asarray(np.where(is_left, successes / np.maximum(trials, 1), -1.0).argmax(axis=1))


def choose_by_thompson_sampling(
    scores: np.ndarray, rates: np.ndarray, budget: int, batch: int, rng: np.random.Generator
) -> np.ndarray:
    """Top-two Thompson sampling without scores: Beta(1, 1) for every candidate."""
    races = np.arange(len(rates))
    successes, failures = np.zeros(rates.shape), np.zeros(rates.shape)
    for _ in range(budget // batch):
        drawn = rng.beta(1.0 + successes, 1.0 + failures, size=(2, *rates.shape))
        first = drawn[0].argmax(axis=1)
        drawn[1, races, first] = -1.0
        picked = np.where(rng.random(len(rates)) < 0.5, first, drawn[1].argmax(axis=1))
        won = rng.binomial(batch, rates[races, picked])
        successes[races, picked] += won
        failures[races, picked] += batch - won
    return np.asarray(((1.0 + successes) / (2.0 + successes + failures)).argmax(axis=1))


ALTERNATIVES: dict[str, Chooser] = {
    "best score": choose_best_scored,
    "equal": choose_by_equal_allocation,
    "halving": choose_by_successive_halving,
    "top-two": choose_by_thompson_sampling,
}
