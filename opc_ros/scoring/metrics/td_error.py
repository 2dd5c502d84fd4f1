"""TD error: how far Q is from one step's reward plus the greedy value after it; reported, never ranked by."""

from __future__ import annotations

from opc_ros.scoring.baselines import td_error
from opc_ros.scoring.error_metric import ErrorMetric

METRIC = ErrorMetric("td_error", "TD error", td_error)
