"""The torch side of a policy: image and tool in, one action out."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn

from opc_ros.policies.input_spec import InputSpec

MOVES = 4  # dx, dy, dz, rotation
RAW = MOVES + 3 + 1  # and logits: leave, open or close the gripper; terminate


class PolicyNetwork(nn.Module, abc.ABC):
    """Answers raw numbers that one rule turns into an action within bounds."""

    limits: Tensor
    tool_centre: Tensor
    tool_spread: Tensor

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        bounds, normalisation = spec.action_bounds, spec.normalisation
        limits = torch.tensor([*(bounds.displacement_m,) * 3, bounds.rotation_rad])
        self.register_buffer("limits", limits, persistent=False)
        self.register_buffer("tool_centre", torch.tensor(normalisation.tool_centre_m), persistent=False)
        self.register_buffer("tool_spread", torch.tensor(normalisation.tool_spread_m), persistent=False)
        self.image_range = normalisation.image_range

    @abc.abstractmethod
    def raw(self, images: Tensor, tools: Tensor) -> Tensor:
        """Images (B, H, W, 3) uint8 and tools (B, 5) into (B, RAW): moves before tanh, then logits."""

    def forward(self, images: Tensor, tools: Tensor) -> Tensor:
        """Actions (B, 8): moves within bounds, flags the likeliest."""
        raw = self.raw(images, tools)
        moves = torch.tanh(raw[:, :MOVES]) * self.limits
        gripper = torch.nn.functional.one_hot(raw[:, MOVES : MOVES + 3].argmax(dim=1), 3)[:, 1:]
        turned = torch.stack([torch.sin(moves[:, 3]), torch.cos(moves[:, 3])], dim=1)
        return torch.cat([moves[:, :3], turned, gripper, raw[:, -1:] > 0], dim=1)

    def pixels(self, images: Tensor) -> Tensor:
        """Bytes (B, H, W, 3) as (B, 3, H, W) within the range the candidate states."""
        low, high = self.image_range
        return images.permute(0, 3, 1, 2).float() / (255.0 / (high - low)) + low

    def tool_features(self, tools: Tensor) -> Tensor:
        """Tools (B, 5) as numbers near one, (B, 6)."""
        position = (tools[:, [0, 1, 2, 4]] - self.tool_centre) / self.tool_spread
        yaw = tools[:, 3:4]
        return torch.cat([position, torch.sin(yaw), torch.cos(yaw)], dim=1)
