"""Chance that the mean Q of a random success lies above that of a random failure."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.order_metric import Labelled, OrderMetric, ScoreOneCandidate, SortedValues, count_concordant


def _prepare(labelled: Labelled) -> ScoreOneCandidate:
    means = labelled.episodes.sum_each(labelled.q) / labelled.episodes.lengths
    values, success = SortedValues(means), labelled.success

    def score(weights: np.ndarray) -> np.ndarray:
        concordant, pairs = count_concordant(values, weights * success, weights * ~success)
        return np.asarray(concordant / pairs)

    return score


METRIC = OrderMetric("episode_auc", "AUC of episodes' mean Q", _prepare)
