"""The torch side of a policy: image and tool in, one action out."""

from __future__ import annotations

import abc

import torch
from torch import Tensor

from opc_ros.policies.architectures.seeing import SeeingNetwork
from opc_ros.policies.input_spec import InputSpec

MOVES = 4  # dx, dy, dz, rotation
RAW = MOVES + 3 + 1  # and logits: leave, open or close the gripper; terminate


class PolicyNetwork(SeeingNetwork, abc.ABC):
    """Outputs raw numbers that one rule turns into an action within bounds."""

    limits: Tensor

    def __init__(self, spec: InputSpec) -> None:
        super().__init__(spec)
        bounds = spec.action_bounds
        limits = torch.tensor([*(bounds.displacement_m,) * 3, bounds.rotation_rad])
        self.register_buffer("limits", limits, persistent=False)

    @abc.abstractmethod
    def raw(self, images: Tensor, tools: Tensor) -> Tensor:
        """Images (B, H, W, 3) uint8 and tools (B, 5) to (B, RAW): moves before tanh, then logits."""

    def forward(self, images: Tensor, tools: Tensor) -> Tensor:
        """Actions (B, 8): moves within bounds, and the likeliest flags."""
        raw = self.raw(images, tools)
        moves = torch.tanh(raw[:, :MOVES]) * self.limits
        gripper = torch.nn.functional.one_hot(raw[:, MOVES : MOVES + 3].argmax(dim=1), 3)[:, 1:]
        turned = torch.stack([torch.sin(moves[:, 3]), torch.cos(moves[:, 3])], dim=1)
        return torch.cat([moves[:, :3], turned, gripper, raw[:, -1:] > 0], dim=1)
