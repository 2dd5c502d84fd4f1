"""safetensors: weights of an architecture whose code ships with opc_ros."""

from __future__ import annotations

from opc_ros.policies.action_function import ActionFunction
from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import QFunction


def _load(candidate: Candidate, where: str, device: str) -> QFunction:
    from opc_ros.policies.torch_q import NetworkQFunction
    from opc_ros.policies.weights import load_network

    return NetworkQFunction(load_network(candidate.manifest, candidate.artifact_bytes), device)


def _load_actions(candidate: Candidate, where: str, device: str) -> ActionFunction:
    from opc_ros.policies.torch_actions import NetworkActionFunction
    from opc_ros.policies.weights import load_policy_network

    return NetworkActionFunction(load_policy_network(candidate.manifest, candidate.artifact_bytes), device)


FORMAT = ArtifactFormat("safetensors", _load, _load_actions)
