"""What candidates answer about the same recorded states: who acts alike, whatever its name, format or bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

PROBES = 64
LEAST_SHARED = (
    16  # states that two candidates must both have been asked about; with fewer, there is no evidence either way
)
LEAST_DIFFERENT = 8  # different answers among them: two candidates that are stuck at 0 are not thereby the same
# Standardised answers of the demo's nearest honest relatives, averages of three and of four checkpoints, lie 0.064
# apart, neighbouring checkpoints 0.33. Another format moves them by less than 0.001, noise of 1 % by 0.011.
ALIKE_WITHIN = 0.02
SAME_ORDER_WITHIN = 5e-4  # 1 - rank correlation: a logit for a probability leaves the order and the greedy action
Likeness = Literal["same", "different", "unknown"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A recorded state that every candidate is asked about."""

    name: str  # which episode file and which step, hashed
    index: int  # of the transition, the episodes one behind the other


def choose_probes(
    keys: Sequence[str], started_ns: Sequence[int], lengths: Sequence[int], count: int = PROBES
) -> tuple[Probe, ...]:
    """States of the oldest episodes, one of each first: a store that grows keeps them.

    Args:
        keys: what names an episode's bytes, (E,).
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
    """Whether two candidates are one policy: their answers agree up to scale and offset, or up to any rising curve."""
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
    """Root mean square of the difference, each with mean 0 and spread 1."""
    first, second = ((row - row.mean()) / row.std() for row in (one, other))
    return float(np.sqrt(np.mean((first - second) ** 2)))


def _name(key: str, step: int) -> str:
    return hashlib.sha256(f"{key} {step}".encode()).hexdigest()[:16]
