"""SoftOPC on the ranks of Q instead of Q: any increasing transform of Q leaves it unchanged."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.order_metric import Labelled, OrderMetric, ScoreOneCandidate, SortedValues


def _prepare(labelled: Labelled) -> ScoreOneCandidate:
    """Ranks from 0 to 1, averaged over equal values; each transition has the same weight."""
    values, episodes, success = SortedValues(labelled.q), labelled.episodes, labelled.success

    def score(weights: np.ndarray) -> np.ndarray:
        each = np.repeat(weights, episodes.lengths, axis=1)
        ranks = values.mass_below(each) / each.sum(axis=1, keepdims=True)
        means = np.add.reduceat(ranks, episodes.starts, axis=1) / episodes.lengths
        positive = weights * success
        mean_positive = (positive * means).sum(axis=1) / positive.sum(axis=1)
        return np.asarray(labelled.prior * mean_positive - (weights * means).sum(axis=1) / weights.sum(axis=1))

    return score


METRIC = OrderMetric("soft_opc_on_ranks", "SoftOPC on ranks of Q", _prepare, bounds=(-1.0, 1.0))
