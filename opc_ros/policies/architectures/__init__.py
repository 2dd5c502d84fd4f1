"""Q networks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opc_ros.policies.architectures.average import Average, AverageParameters
from opc_ros.policies.architectures.named import NamedNetworks
from opc_ros.policies.architectures.network import Code, QNetwork
from opc_ros.policies.architectures.region_moments import RegionMoments, RegionMomentsParameters
from opc_ros.policies.architectures.target_crop import TargetCrop, TargetCropParameters
from opc_ros.policies.architectures.tool_crop import ToolCrop, ToolCropParameters
from opc_ros.policies.architectures.whole_image import QT_OPT_PARAMETERS, WholeImage, WholeImageParameters
from opc_ros.policies.input_spec import InputSpec


def _build_average(spec: InputSpec, parameters: AverageParameters) -> Average:
    one = (parameters.architecture, spec, parameters.hyper_parameters)
    return Average(spec, [build_network(*one, where="member") for _ in range(parameters.members)])


_NETWORKS: NamedNetworks[QNetwork] = NamedNetworks(
    {
        "whole_image": (WholeImage, WholeImageParameters),
        "tool_crop": (ToolCrop, ToolCropParameters),
        "target_crop": (TargetCrop, TargetCropParameters),
        "region_moments": (RegionMoments, RegionMomentsParameters),
        "average": (_build_average, AverageParameters),
    },
    kind="a Q function",
)
ARCHITECTURES = _NETWORKS.names

__all__ = [
    "ARCHITECTURES",
    "QT_OPT_PARAMETERS",
    "Average",
    "Code",
    "QNetwork",
    "build_network",
    "state_hyper_parameters",
]


def build_network(
    architecture: str, spec: InputSpec, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> QNetwork:
    """A network with fresh weights, drawn from torch's current random state."""
    return _NETWORKS.build(architecture, spec, parameters, where)


def state_hyper_parameters(
    architecture: str, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> dict[str, Any]:
    """All of them, with defaults written out: manifests state them, so no later default changes what an id means."""
    stated = _NETWORKS.state(architecture, parameters, where)
    if architecture == "average":
        member = stated["architecture"], stated["hyper_parameters"]
        stated["hyper_parameters"] = state_hyper_parameters(*member, where=f"{where}: member")
    return stated
