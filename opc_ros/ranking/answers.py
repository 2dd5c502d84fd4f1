"""Compares candidates by their answers in the same recorded states: who behaves alike, whatever the name or format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

PROBES = 64
LEAST_SHARED = 16  # states that two candidates must share; with fewer, there is no evidence either way
LEAST_DIFFERENT = 8  # distinct answers among them: two candidates that are stuck at 0 need not be the same
# Standardised answers of the demo's most similar honest candidates (averages of three and of four checkpoints) differ
# by 0.064, those of neighbouring checkpoints by 0.33. Another file format changes them by less than 0.001, noise of 1 %
# by 0.011.
ALIKE_WITHIN = 0.02
SAME_ORDER_WITHIN = 5e-4  # 1 - rank correlation: a logit instead of a probability keeps order and greedy action
Likeness = Literal["same", "different", "unknown"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A recorded state in which every candidate is evaluated."""

    name: str  # hash of the episode file and the step
    index: int  # of the transition, with the episodes concatenated


def choose_probes(
    keys: Sequence[str], started_ns: Sequence[int], lengths: Sequence[int], count: int = PROBES
) -> tuple[Probe, ...]:
    """States of the oldest episodes, first one of each, so that they stay as the store grows.

    Args:
        keys: names of the episodes' bytes, (E,).
        started_ns: when each began, (E,).
        lengths: transitions of each, (E,).
        count: how many states, at most.
    """
    offsets = np.concatenate(([0], np.cumsum(lengths)))[:-1].tolist()
    oldest = sorted(range(len(keys)), key=lambda episode: (started_ns[episode], keys[episode]))[:count]
    places = []
    for place, episode in enumerate(oldest):
        seed = hashlib.sha256(f"opc probe\n{keys[episode]}".encode()).digest()
        steps = np.random.default_rng(int.from_bytes(seed[:8])).permutation(lengths[episode]).tolist()
        places += [(turn, place, episode, step) for turn, step in enumerate(steps)]
    return tuple(
        Probe(_name(keys[episode], step), offsets[episode] + step) for _, _, episode, step in sorted(places)[:count]
    )


def compare_answers(one: Mapping[str, float], other: Mapping[str, float]) -> Likeness:
    """Whether two candidates are one policy: their answers agree up to scale and offset, or in their order."""
    shared = [name for name in one if name in other]
    if len(shared) < LEAST_SHARED:
        return "unknown"
    pair = np.array([[answers[name] for name in shared] for answers in (one, other)], dtype=np.float64)
    if min(np.unique(row).size for row in pair) < LEAST_DIFFERENT:
        return "unknown"
    if _distance(*pair) < ALIKE_WITHIN:
        return "same"
    ranks = np.argsort(np.argsort(pair, axis=1, kind="stable"), axis=1, kind="stable").astype(np.float64)
    return "same" if _distance(*ranks) ** 2 / 2 < SAME_ORDER_WITHIN else "different"


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Root mean square of the difference, after scaling both to mean 0 and standard deviation 1."""
    first, second = ((row - row.mean()) / row.std() for row in (one, other))
    return float(np.sqrt(np.mean((first - second) ** 2)))


def _name(key: str, step: int) -> str:
    return hashlib.sha256(f"{key} {step}".encode()).hexdigest()[:16]
