"""OPC with every episode counting once, regardless of its number of steps."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.order_metric import Labelled, OrderMetric, ScoreOneCandidate, SortedValues


def _prepare(labelled: Labelled) -> ScoreOneCandidate:
    values, episodes, success = SortedValues(labelled.q), labelled.episodes, labelled.success

    def score(weights: np.ndarray) -> np.ndarray:
        positive = weights * success
        gains = labelled.prior * positive / positive.sum(axis=1, keepdims=True)
        gains -= weights / weights.sum(axis=1, keepdims=True)
        return values.best_margin(np.repeat(gains / episodes.lengths, episodes.lengths, axis=1))

    return score


METRIC = OrderMetric("opc_by_episode", "OPC, every episode counting once", _prepare)
