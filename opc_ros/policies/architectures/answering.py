"""One action per state, judged by several networks that look at the same images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from opc_ros.policies.architectures.average import Average
from opc_ros.policies.architectures.map_windows import WindowedStates
from opc_ros.policies.architectures.network import QNetwork
from opc_ros.policies.architectures.target_crop import TargetCrop


def answer_each(networks: Sequence[QNetwork], images: Tensor, tools: Tensor, actions: Tensor) -> Tensor:
    """Q (M, B) of actions (B, A), each in the state of its row; no network's answer depends on the other networks."""
    shared = _Shared(images, tools, actions)
    return torch.stack([shared.answer(network) for network in networks])


class _Shared:
    """Work that networks of the same geometry can share."""

    def __init__(self, images: Tensor, tools: Tensor, actions: Tensor) -> None:
        self._given = (images, tools, actions)
        self._windows: dict[object, WindowedStates] = {}

    def answer(self, network: QNetwork) -> Tensor:
        if self._given[0].device.type != "cpu":
            return network(*self._given)  # type: ignore[no-any-return]
        if isinstance(network, Average):
            return torch.stack([self.answer(member) for member in network.networks()]).mean(dim=0)
        if isinstance(network, TargetCrop):
            return network.judge_windows(self._windows_of(network))
        return network(*self._given)  # type: ignore[no-any-return]

    def _windows_of(self, network: TargetCrop) -> WindowedStates:
        key = network.view
        if key not in self._windows:
            self._windows[key] = network.find_windows(*self._given)
        return self._windows[key]
