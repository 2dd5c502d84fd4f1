"""A secret part of the validation set: a candidate that scores far better on the rest has seen the rest.

Which episodes are hidden depends only on the scorer's secret and each episode's id, so it stays as the store grows.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence

import numpy as np

from opc_ros.scoring.bootstrap import candidates_at_once, weightings_at_once
from opc_ros.scoring.reweighting import Reweighter
from opc_ros.scoring.value_rows import ValueRows

SHARE = 0.2
LEAST = 10  # of each outcome, hidden and shown: with fewer, there is no evidence either way
SPLITS = 500
TOLD_BELOW = 0.01  # a p-value above this is reported as 1, so that the hidden score of an honest candidate stays secret


def find_hidden(secret: bytes, episode_ids: Sequence[str]) -> np.ndarray:
    """Which episodes are hidden, (E,) bool; none without a secret."""
    if not secret:
        return np.zeros(len(episode_ids), np.bool_)
    draws = [int.from_bytes(hmac.digest(secret, each.encode(), "sha256")[:8]) / 2**64 for each in episode_ids]
    return np.array(draws) < SHARE


def compare_with_hidden(
    q: ValueRows,
    lengths: np.ndarray,
    success: np.ndarray,
    hidden: np.ndarray,
    own: np.ndarray,
    *,
    metric: str,
    prior: float = 1.0,
    splits: int = SPLITS,
    rng: np.random.Generator,
) -> np.ndarray:
    """For each candidate, the chance that it scores this much higher on the shown part by luck, (C,); 1 if not small.

    For an honest candidate hidden and shown episodes are alike, so its difference looks like those of random splits of
    the same size. Beyond the splits drawn, the tail is assumed normal.

    Args:
        q: for each of C candidates its Q value of each recorded transition, (N,).
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        hidden: which episodes are hidden, (E,) bool.
        own: which episodes do not count for which candidate, (C, E) bool.
        metric: which score.
        prior: p(y=1).
        splits: random splits to compare with.
        rng: the only source of randomness.
    """
    chances = np.ones(len(q))
    judged = [row for row, mask in enumerate(own) if _least(success, hidden, mask) >= LEAST]
    if not judged:
        return chances
    drawn = _draw_splits(success, hidden, splits, rng)
    at_once, rows = candidates_at_once(lengths), weightings_at_once(hidden.size)
    for first in range(0, len(judged), at_once):
        some = judged[first : first + at_once]
        scorer = Reweighter(
            [q[row] for row in some],
            lengths,
            success,
            metric=metric,
            prior=prior,
            own=own[np.array(some)],
            first=first,
        )
        found = _differences(scorer, hidden[None])[0]
        parts = (drawn[start : start + rows] for start in range(0, splits, rows))
        by_luck = np.concatenate([_differences(scorer, _unpack(part, hidden.size)) for part in parts])
        chances[some] = _tell_luck(found, by_luck)
        del scorer  # free it before the next is prepared
    return chances


def _tell_luck(found: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The chance, (C,), of differences this large, (C,), among those of random splits, (splits, C)."""
    above = (drawn >= found).sum(axis=0)
    spread = np.maximum(drawn.std(axis=0), np.finfo(float).tiny)
    tail = np.array([0.5 * math.erfc(z / math.sqrt(2)) for z in (found - drawn.mean(axis=0)) / spread])
    seen = (1 + above) / (1 + len(drawn))
    chance = np.where(above > 0, seen, np.minimum(seen, tail))
    return np.where(chance < TOLD_BELOW, chance, 1.0)


def _differences(scorer: Reweighter, hidden: np.ndarray) -> np.ndarray:
    """Score on the shown minus score on the hidden episodes, (splits, C), for splits (splits, E)."""
    difference: np.ndarray = scorer.score((~hidden).astype(np.float64)) - scorer.score(hidden.astype(np.float64))
    return difference


def _draw_splits(success: np.ndarray, hidden: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Splits with as many hidden successes and failures as the real one, (count, E), one bit per episode."""
    drawn = np.zeros((count, -(-hidden.size // 8)), np.uint8)
    for stratum in (np.flatnonzero(success), np.flatnonzero(~success)):
        size = int(hidden[stratum].sum())
        for row in drawn:
            is_drawn = np.zeros(hidden.size, np.bool_)
            is_drawn[rng.permutation(stratum)[:size]] = True
            row |= np.packbits(is_drawn)
    return drawn


def _unpack(drawn: np.ndarray, episodes: int) -> np.ndarray:
    return np.unpackbits(drawn, axis=1, count=episodes).astype(np.bool_)


def _least(success: np.ndarray, hidden: np.ndarray, own: np.ndarray) -> int:
    counts = [(part & outcome & ~own).sum() for part in (hidden, ~hidden) for outcome in (success, ~success)]
    return int(min(counts))
