"""SoftOPC in which every transition counts once, so that long episodes weigh more."""

from __future__ import annotations

from opc_ros.scoring.metrics.soft_opc import SoftOpc

METRIC = SoftOpc(name="soft_opc_by_transition", title="SoftOPC by transition", weighting="transition")
