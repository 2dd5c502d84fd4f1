"""Square patches of an image from the gripper's point of view: laid out in the base frame, projected and sampled."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opc_ros.errors import CandidateError
from opc_ros.policies.input_spec import InputSpec

HEIGHTS = 2  # every patch is sampled at the tool's height and at the height where objects lie


class PatchSampler(nn.Module):
    """Samples a horizontal patch around a tool pose, rotated with its yaw, at tool height and at object height.

    A patch is laid out in metres and projected point by point, so what it returns has no perspective and no yaw left in
    it.
    """

    corners: Tensor
    projection: Tensor
    camera_size: Tensor

    def __init__(self, spec: InputSpec, *, side_m: float, cells: int, surface_z_m: float, architecture: str) -> None:
        super().__init__()
        if spec.camera is None:
            raise CandidateError(
                f"architecture {architecture}: needs the camera's projection, but input: camera is missing"
            )
        if cells < 4 or side_m <= 0:
            raise CandidateError(
                f"architecture {architecture}: patch is {side_m} m in {cells} cells, expected > 0 and >= 4"
            )
        self.cells = cells
        self.surface_z_m = surface_z_m
        ticks = (torch.arange(cells) + 0.5) / cells * side_m - side_m / 2
        ahead, left = torch.meshgrid(-ticks, -ticks, indexing="ij")  # top row farthest ahead, left column farthest left
        self.register_buffer("corners", torch.stack([ahead.flatten(), left.flatten()]), persistent=False)
        self.register_buffer("projection", torch.tensor(spec.camera.projection), persistent=False)
        self.register_buffer(
            "camera_size", torch.tensor([spec.camera.width, spec.camera.height]).float(), persistent=False
        )

    def sample(self, features: Tensor, poses: Tensor) -> Tensor:
        """Patches (B * K, 2 * C, n, n) of maps (B, C, h, w) at poses (B, K, 4): x, y, z, yaw."""
        # The K * 2 * n rows that belong to one map are stacked vertically.
        grid = self.project(poses).view(features.shape[0], -1, self.cells, 2)
        sampled = nn.functional.grid_sample(features, grid, align_corners=False, padding_mode="zeros")
        return self.arrange(sampled)

    def arrange(self, sampled: Tensor) -> Tensor:
        """Patches (B * K, 2 * C, n, n) from what was sampled at the points, (B, C, K * 2 * n, n)."""
        maps, channels, n = sampled.shape[0], sampled.shape[1], self.cells
        patches = sampled.view(maps, channels, -1, HEIGHTS, n, n).permute(0, 2, 3, 1, 4, 5)
        return patches.flatten(0, 1).flatten(1, 2)

    def project(self, poses: Tensor) -> Tensor:
        """Where each patch point appears in the image, (B, K, 2, n * n, 2), in the -1..1 units of grid_sample."""
        cos, sin = torch.cos(poses[..., 3:4]), torch.sin(poses[..., 3:4])
        x = poses[..., 0:1] + cos * self.corners[0] - sin * self.corners[1]  # (B, K, n * n)
        y = poses[..., 1:2] + sin * self.corners[0] + cos * self.corners[1]
        tool_z = poses[..., 2]
        heights = torch.stack([tool_z, torch.full_like(tool_z, self.surface_z_m)], dim=-1)  # (B, K, 2)
        m = self.projection
        u, v, w = (
            (m[i, 0] * x + m[i, 1] * y)[..., None, :] + (m[i, 2] * heights + m[i, 3])[..., None] for i in range(3)
        )
        # A point behind the camera is not in the image: divided by nearly nothing, it lands far outside.
        depth = w.clamp(min=1e-6)
        return torch.stack([u / depth, v / depth], dim=-1) / self.camera_size * 2.0 - 1.0


def pose_after(tools: Tensor, actions: Tensor) -> Tensor:
    """The poses (B, K, 4), x, y, z, yaw, to which actions (B, K, 8) take tools (B, 5)."""
    yaw = tools[:, None, 3] + torch.atan2(actions[..., 3], actions[..., 4])
    return torch.cat([tools[:, None, :3] + actions[..., :3], yaw[..., None]], dim=-1)
