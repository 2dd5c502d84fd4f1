"""Chance that a random step of a random success has a higher Q than a random step of a random failure."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.order_metric import Labelled, OrderMetric, ScoreOneCandidate, SortedValues, count_concordant


def _prepare(labelled: Labelled) -> ScoreOneCandidate:
    values, episodes = SortedValues(labelled.q), labelled.episodes
    is_positive = episodes.spread(labelled.success)

    def score(weights: np.ndarray) -> np.ndarray:
        each = np.repeat(weights / episodes.lengths, episodes.lengths, axis=1)
        positive = each * is_positive
        each *= ~is_positive
        concordant, pairs = count_concordant(values, positive, each)
        return np.asarray(concordant / pairs)

    return score


METRIC = OrderMetric("weighted_auc", "AUC, every episode counting once", _prepare)
