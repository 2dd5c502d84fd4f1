"""A Q network that looks at what lies around the point where the action takes the tool."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from opc_ros.policies.architectures.network import (
    ActionEmbedding,
    Code,
    QNetwork,
    convolution,
    group_by_state,
)
from opc_ros.policies.architectures.patch import HEIGHTS, PatchSampler, pose_after
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class TargetCropParameters:
    """How large a patch, and how wide the network over it."""

    side_m: float = 0.20
    cells: int = 12
    surface_z_m: float = 0.02
    map_channels: tuple[int, ...] = (16, 16, 16)  # the first halves the image
    patch_channels: tuple[int, ...] = (32, 48)  # each halves the patch
    action_hidden: int = 64
    hidden: int = 64


class TargetCrop(QNetwork):
    """Convolutions see the image once; an action then reads their map where it would put the gripper."""

    def __init__(self, spec: InputSpec, parameters: TargetCropParameters) -> None:
        super().__init__(spec)
        p = parameters
        self.patch = PatchSampler(
            spec, side_m=p.side_m, cells=p.cells, surface_z_m=p.surface_z_m, architecture="target_crop"
        )
        trunk, width = [], 3
        for index, channels in enumerate(p.map_channels):
            trunk.append(convolution(width, channels, 5 if index == 0 else 3, stride=2 if index == 0 else 1))
            width = channels
        self.trunk = nn.Sequential(*trunk)
        width *= HEIGHTS
        self.first = convolution(width, p.patch_channels[0], 3, stride=2)
        self.embedding = ActionEmbedding(p.action_hidden, p.patch_channels[0])
        rest, width, cells = [], p.patch_channels[0], (p.cells + 1) // 2
        for channels in p.patch_channels[1:]:
            rest.append(convolution(width, channels, 3, stride=2))
            width, cells = channels, (cells + 1) // 2
        self.judge = nn.Sequential(
            *rest, nn.Flatten(), nn.Linear(width * cells * cells, p.hidden), nn.ReLU(), nn.Linear(p.hidden, 1)
        )

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        return self.trunk(self.pixels(images)), tools

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        features, tools = code
        grouped = group_by_state(actions, tools)
        seen = self.first(self.patch.sample(features, pose_after(tools, grouped)))
        embedding = self.embedding(self.tool_features(tools), grouped * self.action_scale)
        judged: Tensor = self.judge(seen + embedding.flatten(0, 1)[:, :, None, None])
        return judged.squeeze(1)
