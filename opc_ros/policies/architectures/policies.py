"""Policy networks by name, each built from a plain dictionary of hyper-parameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from opc_ros.config import parse_config
from opc_ros.errors import CandidateError
from opc_ros.policies.architectures.keypoints import Keypoints, KeypointsParameters
from opc_ros.policies.architectures.policy_network import PolicyNetwork
from opc_ros.policies.input_spec import InputSpec

_KINDS: dict[str, tuple[Any, Any]] = {"keypoints": (Keypoints, KeypointsParameters)}
POLICY_ARCHITECTURES = tuple(_KINDS)


def build_policy_network(
    architecture: str, spec: InputSpec, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> PolicyNetwork:
    """A network with fresh weights, drawn from torch's current random state."""
    kind, parsed = _KINDS[_known(architecture, where)][0], _parse(architecture, parameters, where)
    try:
        network: PolicyNetwork = kind(spec, parsed)
    except (RuntimeError, ValueError, ZeroDivisionError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise CandidateError(
            f"{where}: {architecture} cannot be built with {dict(parameters or {})}: {reason}"
        ) from error
    return network


def state_policy_parameters(
    architecture: str, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> dict[str, Any]:
    """All of them, defaults written out."""
    stated: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(_parse(architecture, parameters, where))))
    return stated


def _parse(architecture: str, parameters: Mapping[str, Any] | None, where: str) -> Any:
    kind = _KINDS[_known(architecture, where)][1]
    return parse_config(dict(parameters or {}), kind, where=f"{where}: hyper_parameters")


def _known(architecture: str, where: str) -> str:
    if architecture not in _KINDS:
        expected = ", ".join(POLICY_ARCHITECTURES)
        raise CandidateError(f"{where}: architecture {architecture!r}, expected one of {expected} for a policy")
    return architecture
