"""AUC among steps that are equally far from the end of their episodes, so that progress alone earns nothing."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.order_metric import Labelled, OrderMetric, ScoreOneCandidate, SortedValues, count_concordant

STRATA = 9  # 0 to 7 steps before the last, and all earlier ones together


def _prepare(labelled: Labelled) -> ScoreOneCandidate:
    episodes = labelled.episodes
    to_the_end = episodes.spread(episodes.ends) - np.arange(episodes.transitions)
    stratum = np.minimum(to_the_end, STRATA - 1).astype(np.int8)
    del to_the_end
    row = episodes.spread(np.arange(episodes.lengths.size, dtype=np.int32))
    parts = []
    for number in range(STRATA):
        at = np.flatnonzero(stratum == number)
        if at.size:
            parts.append((SortedValues(labelled.q[at]), row[at], labelled.success[row[at]]))

    def score(weights: np.ndarray) -> np.ndarray:
        concordant, pairs = np.zeros(len(weights)), np.zeros(len(weights))
        for values, rows, is_positive in parts:
            each = weights[:, rows]
            found, of = count_concordant(values, each * is_positive, each * ~is_positive)
            concordant, pairs = concordant + found, pairs + of
        return np.asarray(concordant / pairs)  # never 0: every episode's last step is in the first stratum

    return score


METRIC = OrderMetric("auc_by_step", "AUC by steps from the end", _prepare)
