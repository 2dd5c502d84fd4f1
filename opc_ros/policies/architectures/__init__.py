"""Q networks by name, each built from a plain dictionary of hyper-parameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from opc_ros.config import parse_config
from opc_ros.errors import CandidateError
from opc_ros.policies.architectures.average import Average, AverageParameters
from opc_ros.policies.architectures.network import Code, QNetwork
from opc_ros.policies.architectures.region_moments import RegionMoments, RegionMomentsParameters
from opc_ros.policies.architectures.target_crop import TargetCrop, TargetCropParameters
from opc_ros.policies.architectures.tool_crop import ToolCrop, ToolCropParameters
from opc_ros.policies.architectures.whole_image import QT_OPT_PARAMETERS, WholeImage, WholeImageParameters
from opc_ros.policies.input_spec import InputSpec


def _build_average(spec: InputSpec, parameters: AverageParameters) -> Average:
    one = (parameters.architecture, spec, parameters.hyper_parameters)
    return Average(spec, [build_network(*one, where="member") for _ in range(parameters.members)])


_KINDS: dict[str, tuple[Any, Any]] = {
    "whole_image": (WholeImage, WholeImageParameters),
    "tool_crop": (ToolCrop, ToolCropParameters),
    "target_crop": (TargetCrop, TargetCropParameters),
    "region_moments": (RegionMoments, RegionMomentsParameters),
    "average": (_build_average, AverageParameters),
}
ARCHITECTURES = tuple(_KINDS)

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
    network_kind, parsed = _KINDS[_known(architecture, where)][0], _parse(architecture, parameters, where)
    try:
        network: QNetwork = network_kind(spec, parsed)
    except (RuntimeError, ValueError, ZeroDivisionError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise CandidateError(
            f"{where}: {architecture} cannot be built with {dict(parameters or {})}: {reason}"
        ) from error
    return network


def state_hyper_parameters(
    architecture: str, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> dict[str, Any]:
    """All of them, defaults written out: a manifest states them, so that no default can change under an id."""
    stated: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(_parse(architecture, parameters, where))))
    if architecture == "average":
        member = stated["architecture"], stated["hyper_parameters"]
        stated["hyper_parameters"] = state_hyper_parameters(*member, where=f"{where}: member")
    return stated


def _parse(architecture: str, parameters: Mapping[str, Any] | None, where: str) -> Any:
    kind = _KINDS[_known(architecture, where)][1]
    return parse_config(dict(parameters or {}), kind, where=f"{where}: hyper_parameters")


def _known(architecture: str, where: str) -> str:
    if architecture not in _KINDS:
        raise CandidateError(f"{where}: architecture {architecture!r}, expected one of {', '.join(ARCHITECTURES)}")
    return architecture
