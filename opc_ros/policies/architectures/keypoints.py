"""A policy that finds a few keypoints in the image and moves according to where they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.network import convolution
from opc_ros.policies.architectures.policy_network import RAW, PolicyNetwork
from opc_ros.policies.architectures.seeing import TOOL_FEATURES
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class KeypointsParameters:
    """Widths and depths; the defaults suit images of about 96x96."""

    channels: tuple[int, ...] = (24, 32)  # the first layer halves the image
    points: int = 16  # keypoints
    hidden: tuple[int, ...] = (128, 64)


class Keypoints(PolicyNetwork):
    """Each keypoint is the centre of mass of one map; with a camera it is relative to where the tool appears."""

    projection: Tensor | None
    camera_size: Tensor | None

    def __init__(self, spec: InputSpec, parameters: KeypointsParameters) -> None:
        super().__init__(spec)
        p = parameters
        layers, width = [], 3
        for index, channels in enumerate(p.channels):
            layers.append(convolution(width, channels, 5, stride=2 if index == 0 else 1))
            width = channels
        self.trunk = nn.Sequential(*layers, nn.Conv2d(width, p.points, 1))
        self.temperature = nn.Parameter(torch.full((p.points,), 8.0))
        camera = spec.camera
        self.register_buffer(
            "projection", None if camera is None else torch.tensor(camera.projection), persistent=False
        )
        size = None if camera is None else torch.tensor([camera.width, camera.height]).float()
        self.register_buffer("camera_size", size, persistent=False)
        judged: list[nn.Module] = []
        size_now = 3 * p.points + TOOL_FEATURES
        for units in p.hidden:
            judged += [nn.Linear(size_now, units), nn.ReLU()]
            size_now = units
        self.judge = nn.Sequential(*judged, nn.Linear(size_now, RAW))

    def raw(self, images: Tensor, tools: Tensor) -> Tensor:
        maps = self.trunk(self.pixels(images))  # (B, P, h, w)
        rows, columns = (torch.linspace(-1.0, 1.0, side, device=maps.device) for side in (maps.shape[2], maps.shape[3]))
        shares = torch.softmax((maps * self.temperature[:, None, None]).flatten(2), dim=2).view_as(maps)
        places = torch.stack([(shares.sum(dim=2) * columns).sum(dim=2), (shares.sum(dim=3) * rows).sum(dim=2)], dim=2)
        strength = (shares * maps).sum(dim=(2, 3))
        relative = places - self._seen_at(tools)[:, None]
        judged: Tensor = self.judge(torch.cat([relative.flatten(1), strength, self.tool_features(tools)], dim=1))
        return judged

    def _seen_at(self, tools: Tensor) -> Tensor:
        """Where the tool appears, (B, 2), as column and row from -1 to 1; the middle if no camera is known."""
        if self.projection is None or self.camera_size is None:
            return torch.zeros(len(tools), 2, device=tools.device)
        seen = tools[:, :3] @ self.projection[:, :3].T + self.projection[:, 3]
        return seen[:, :2] / seen[:, 2:].clamp(min=1e-6) / self.camera_size * 2.0 - 1.0
