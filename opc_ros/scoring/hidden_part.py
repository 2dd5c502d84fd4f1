"""A secret part of the validation set: a candidate that scores far better on the rest has seen the rest.

Which episodes are hidden follows from the scorer's secret and an episode's id alone, so it stays as the store grows.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence

import numpy as np

from opc_ros.scoring.reweighting import Reweighter

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
    q: Sequence[np.ndarray],
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
    """By candidate, the chance that as much more on the shown part is luck, (C,); what agrees is told as 1.

    To an honest candidate hidden and shown episodes are alike, so its difference is one among those of random splits of
    the same size. Beyond the splits drawn, the tail is taken as normal.

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
    scorer = Reweighter(
        [q[row] for row in judged], lengths, success, metric=metric, prior=prior, own=own[np.array(judged)]
    )
    found = _differences(scorer, hidden[None])[0]
    drawn = _differences(scorer, _draw_splits(success, hidden, splits, rng))
    above = (drawn >= found).sum(axis=0)
    spread = np.maximum(drawn.std(axis=0), np.finfo(float).tiny)
    tail = np.array([0.5 * math.erfc(z / math.sqrt(2)) for z in (found - drawn.mean(axis=0)) / spread])
    seen = (1 + above) / (1 + splits)
    chance = np.where(above > 0, seen, np.minimum(seen, tail))
    chances[judged] = np.where(chance < TOLD_BELOW, chance, 1.0)
    return chances


def _differences(scorer: Reweighter, hidden: np.ndarray) -> np.ndarray:
    """Shown score less hidden score, (splits, C), for splits (splits, E)."""
    difference: np.ndarray = scorer.score((~hidden).astype(np.float64)) - scorer.score(hidden.astype(np.float64))
    return difference


def _draw_splits(success: np.ndarray, hidden: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Splits with as many hidden successes and failures as the real one, (count, E) bool."""
    drawn = np.zeros((count, hidden.size), np.bool_)
    for stratum in (np.flatnonzero(success), np.flatnonzero(~success)):
        size = int(hidden[stratum].sum())
        for row in drawn:
            row[rng.permutation(stratum)[:size]] = True
    return drawn


def _least(success: np.ndarray, hidden: np.ndarray, own: np.ndarray) -> int:
    counts = [(part & outcome & ~own).sum() for part in (hidden, ~hidden) for outcome in (success, ~success)]
    return int(min(counts))
