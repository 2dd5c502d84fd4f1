"""MCC error: how far Q is from the return corrected by advantages; reported, never ranked by."""

from __future__ import annotations

from opc_ros.scoring.baselines import mcc_error
from opc_ros.scoring.error_metric import ErrorMetric

METRIC = ErrorMetric("mcc_error", "MCC error", mcc_error)
