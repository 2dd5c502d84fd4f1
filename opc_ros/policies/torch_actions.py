"""Named policy architectures in torch, as functions that answer actions."""

from __future__ import annotations

import numpy as np
import torch

from opc_ros.policies.architectures.policy_network import PolicyNetwork
from opc_ros.policies.q_function import Observations
from opc_ros.policies.torch_q import fuse_normalisation


class NetworkActionFunction:
    """A named architecture that answers one action in each state."""

    def __init__(self, network: PolicyNetwork, device: str) -> None:
        fuse_normalisation(network)
        self._network = network.to(device).eval()
        self._device = device

    def act(self, observations: Observations) -> np.ndarray:
        shown = (
            torch.from_numpy(np.ascontiguousarray(part)).to(self._device)
            for part in (observations.images, observations.tools)
        )
        with torch.inference_mode():
            return np.asarray(self._network(*shown).cpu().numpy())
