"""Named architectures computed less exactly, for scoring alone: on an arm every policy thinks in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures import QNetwork
from opc_ros.policies.q_function import QFunction
from opc_ros.policies.torch_q import NetworkQFunction


def coarsen(q_function: QFunction) -> QFunction:
    """The same Q function in bfloat16, where it is one of a named architecture; any other stays as it is."""
    if isinstance(q_function, NetworkQFunction):
        return CoarseQFunction(q_function.network)
    return q_function


class CoarseQFunction(NetworkQFunction):
    """Convolutions in bfloat16, whose sums are float32 inside; what judges their maps in float32."""

    def __init__(self, network: QNetwork) -> None:
        super().__init__(network, "cpu")
        for part in list(network.modules()):
            for name, layer in list(part.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(part, name, _InFloat32(layer))

    def arithmetic(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16)


class _InFloat32(nn.Module):
    """A layer that keeps Q apart: rounded to bfloat16, Q near one half would have steps of 0.002."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            judged: Tensor = self.layer(values.float())
        return judged
