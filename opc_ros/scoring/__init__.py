"""Scores of Q functions on recorded episodes, and how sure they are."""

from opc_ros.scoring.baselines import discounted_sum_of_advantages, final_rewards, mcc_error, td_error
from opc_ros.scoring.metrics import (
    Weighting,
    extended_opc,
    opc,
    opc_over_priors,
    return_bound,
    soft_opc,
    thresholded_opc,
)

__all__ = [
    "Weighting",
    "discounted_sum_of_advantages",
    "extended_opc",
    "final_rewards",
    "mcc_error",
    "opc",
    "opc_over_priors",
    "return_bound",
    "soft_opc",
    "td_error",
    "thresholded_opc",
]
