"""How networks of either kind, Q functions and policies, take in an image and a tool."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opc_ros.policies.input_spec import InputSpec

TOOL_FEATURES = 6


class SeeingNetwork(nn.Module):
    """Brings images and tools into the ranges that the candidate's manifest states."""

    tool_centre: Tensor
    tool_spread: Tensor

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        normalisation = spec.normalisation
        self.register_buffer("tool_centre", torch.tensor(normalisation.tool_centre_m), persistent=False)
        self.register_buffer("tool_spread", torch.tensor(normalisation.tool_spread_m), persistent=False)
        self.image_range = normalisation.image_range

    def pixels(self, images: Tensor) -> Tensor:
        """Bytes (B, H, W, 3) as (B, 3, H, W) in the range that the manifest states."""
        low, high = self.image_range
        return images.permute(0, 3, 1, 2).float() / (255.0 / (high - low)) + low

    def tool_features(self, tools: Tensor) -> Tensor:
        """Tools (B, 5) as numbers of order one, (B, 6)."""
        position = (tools[:, [0, 1, 2, 4]] - self.tool_centre) / self.tool_spread
        yaw = tools[:, 3:4]
        return torch.cat([position, torch.sin(yaw), torch.cos(yaw)], dim=1)
