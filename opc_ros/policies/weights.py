"""Network weights to and from safetensors bytes: tensors and names, never code."""

from __future__ import annotations

from typing import Any

import safetensors
import safetensors.torch
from torch import nn

from opc_ros.errors import CandidateError
from opc_ros.policies.architectures import QNetwork, build_network, state_hyper_parameters
from opc_ros.policies.architectures.policies import build_policy_network, state_policy_parameters
from opc_ros.policies.architectures.policy_network import PolicyNetwork
from opc_ros.policies.manifest import CandidateManifest, find_unstated


def save_weights(network: nn.Module) -> bytes:
    """The artifact of a safetensors candidate."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    return safetensors.torch.save(state)


def load_network(manifest: CandidateManifest, artifact: bytes) -> QNetwork:
    """The manifest's architecture with these weights, ready to answer Q."""
    where = f"candidate {manifest.name}"
    stated = state_hyper_parameters(manifest.architecture, manifest.hyper_parameters, where=where)
    _refuse_unstated(manifest, stated)
    network = build_network(manifest.architecture, manifest.input, manifest.hyper_parameters, where=where)
    _put_weights(network, manifest, artifact)
    return network.eval()


def load_policy_network(manifest: CandidateManifest, artifact: bytes) -> PolicyNetwork:
    """Likewise for a policy, ready to act."""
    where = f"candidate {manifest.name}"
    _refuse_unstated(manifest, state_policy_parameters(manifest.architecture, manifest.hyper_parameters, where=where))
    network = build_policy_network(manifest.architecture, manifest.input, manifest.hyper_parameters, where=where)
    _put_weights(network, manifest, artifact)
    return network.eval()


def _refuse_unstated(manifest: CandidateManifest, stated: dict[str, Any]) -> None:
    if unstated := find_unstated(stated, manifest.hyper_parameters):
        raise CandidateError(
            f"candidate {manifest.name}: hyper_parameters: {unstated} is missing; a manifest states every one"
        )


def _put_weights(network: nn.Module, manifest: CandidateManifest, artifact: bytes) -> None:
    where = f"candidate {manifest.name}"
    try:
        state = safetensors.torch.load(artifact)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise CandidateError(f"{where}: {manifest.artifact} is not a safetensors file: {reason}") from error
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise CandidateError(
                f"{where}: {manifest.artifact}: tensor {name} has shape {found.get(name, 'none')}, "
                f"{manifest.architecture} with these hyper-parameters has {expected.get(name, 'none')}"
            )
    network.load_state_dict(state)
