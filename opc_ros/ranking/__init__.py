"""Orders candidates with uncertainty, and compares the order with true success."""

from opc_ros.ranking.agreement import (
    Agreement,
    FittedLine,
    SafetyErrors,
    fit_line,
    kendall,
    mean_maximum_rank_violation,
    measure_agreement,
    regret_at_k,
    safety_errors,
    spearman,
)
from opc_ros.ranking.comparison import Move, RankingComparison, compare_rankings
from opc_ros.ranking.predicted_success import Field, PredictedSuccess, predict_success
from opc_ros.ranking.rank import digest_q_values, rank_candidates
from opc_ros.ranking.ranking import LeftOutCandidate, RankedCandidate, Ranking
from opc_ros.ranking.uncertainty import (
    SplitStability,
    beat_probabilities,
    measure_stability,
    rank_bounds,
    rank_intervals,
    top_k_probabilities,
)

__all__ = [
    "Agreement",
    "Field",
    "FittedLine",
    "LeftOutCandidate",
    "Move",
    "PredictedSuccess",
    "RankedCandidate",
    "Ranking",
    "RankingComparison",
    "SafetyErrors",
    "SplitStability",
    "beat_probabilities",
    "compare_rankings",
    "digest_q_values",
    "fit_line",
    "kendall",
    "mean_maximum_rank_violation",
    "measure_agreement",
    "measure_stability",
    "predict_success",
    "rank_bounds",
    "rank_candidates",
    "rank_intervals",
    "regret_at_k",
    "safety_errors",
    "spearman",
    "top_k_probabilities",
]
