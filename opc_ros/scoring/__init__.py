"""Scores of Q functions on recorded episodes, and how sure they are."""

from opc_ros.scoring.baselines import (
    BaselineScores,
    discounted_sum_of_advantages,
    final_rewards,
    mcc_error,
    score_baselines,
    td_error,
)
from opc_ros.scoring.bootstrap import bootstrap_scores, draw_resamples, score_intervals, split_scores
from opc_ros.scoring.metrics import (
    METRIC_NAMES,
    MetricName,
    Weighting,
    compute_metric,
    extended_opc,
    opc,
    opc_over_priors,
    return_bound,
    soft_opc,
    soft_opc_over_spread,
    thresholded_opc,
)
from opc_ros.scoring.reweighting import Reweighter

__all__ = [
    "METRIC_NAMES",
    "BaselineScores",
    "MetricName",
    "Reweighter",
    "Weighting",
    "bootstrap_scores",
    "compute_metric",
    "discounted_sum_of_advantages",
    "draw_resamples",
    "extended_opc",
    "final_rewards",
    "mcc_error",
    "opc",
    "opc_over_priors",
    "return_bound",
    "score_baselines",
    "score_intervals",
    "soft_opc",
    "soft_opc_over_spread",
    "split_scores",
    "td_error",
    "thresholded_opc",
]
