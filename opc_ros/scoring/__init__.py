"""Scores of Q functions on recorded episodes, with their uncertainty."""

from opc_ros.scoring.baselines import (
    BaselineScores,
    discounted_sum_of_advantages,
    final_rewards,
    mcc_error,
    score_baselines,
    td_error,
)
from opc_ros.scoring.bootstrap import bootstrap_scores, draw_resamples, score_bias, score_intervals, split_scores
from opc_ros.scoring.extended_opc import extended_opc, thresholded_opc
from opc_ros.scoring.metric import Answers, Metric, RankingMetric
from opc_ros.scoring.metrics import (
    all_metrics,
    compute_metric,
    find_metric,
    find_ranking_metric,
    ranking_metric_names,
    score_without,
)
from opc_ros.scoring.metrics.opc import opc, opc_over_priors
from opc_ros.scoring.metrics.soft_opc import Weighting, soft_opc
from opc_ros.scoring.metrics.soft_opc_over_spread import soft_opc_over_spread
from opc_ros.scoring.return_bound import return_bound
from opc_ros.scoring.reweighting import Reweighter

__all__ = [
    "Answers",
    "BaselineScores",
    "Metric",
    "RankingMetric",
    "Reweighter",
    "Weighting",
    "all_metrics",
    "bootstrap_scores",
    "compute_metric",
    "discounted_sum_of_advantages",
    "draw_resamples",
    "extended_opc",
    "final_rewards",
    "find_metric",
    "find_ranking_metric",
    "mcc_error",
    "opc",
    "opc_over_priors",
    "ranking_metric_names",
    "return_bound",
    "score_baselines",
    "score_bias",
    "score_intervals",
    "score_without",
    "soft_opc",
    "soft_opc_over_spread",
    "split_scores",
    "td_error",
    "thresholded_opc",
]
