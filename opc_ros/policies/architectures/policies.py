"""Policy networks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opc_ros.policies.architectures.keypoints import Keypoints, KeypointsParameters
from opc_ros.policies.architectures.named import NamedNetworks
from opc_ros.policies.architectures.policy_network import PolicyNetwork
from opc_ros.policies.input_spec import InputSpec

_NETWORKS: NamedNetworks[PolicyNetwork] = NamedNetworks(
    {"keypoints": (Keypoints, KeypointsParameters)}, kind="a policy"
)


def build_policy_network(
    architecture: str, spec: InputSpec, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> PolicyNetwork:
    """A network with fresh weights, drawn from torch's current random state."""
    return _NETWORKS.build(architecture, spec, parameters, where)


def state_policy_parameters(
    architecture: str, parameters: Mapping[str, Any] | None = None, *, where: str = "candidate"
) -> dict[str, Any]:
    """All of them, with defaults written out."""
    return _NETWORKS.state(architecture, parameters, where)
