"""Named architectures in reduced precision, for scoring only: on an arm every policy computes in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures import QNetwork
from opc_ros.policies.q_function import QFunction
from opc_ros.policies.torch_q import NetworkQFunction


def coarsen(q_function: QFunction) -> QFunction:
    """The same Q function in bfloat16 if it is a named architecture; any other is returned unchanged."""
    if isinstance(q_function, NetworkQFunction):
        return CoarseQFunction(q_function.network)
    return q_function


class CoarseQFunction(NetworkQFunction):
    """Convolutions in bfloat16 (accumulated in float32), and the head after them in float32."""

    def __init__(self, network: QNetwork) -> None:
        super().__init__(network, "cpu")
        for part in list(network.modules()):
            for name, layer in list(part.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(part, name, _InFloat32(layer))

    def arithmetic(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16)


class _InFloat32(nn.Module):
    """A layer that stays in float32: Q rounded to bfloat16 would have steps of 0.002 near one half."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            judged: Tensor = self.layer(values.float())
        return judged
