"""A Q network that looks at the surroundings of the point to which the action takes the tool."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.map_windows import Trunk, WindowedStates, find_windows
from opc_ros.policies.architectures.network import ActionEmbedding, Code, QNetwork, convolution, group_by_state
from opc_ros.policies.architectures.patch import HEIGHTS, PatchSampler, pose_after
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class TargetCropParameters:
    """The size of the patch, and the widths of the network over it."""

    side_m: float = 0.20
    cells: int = 12
    surface_z_m: float = 0.02
    map_channels: tuple[int, ...] = (16, 16, 16)  # the first halves the image
    patch_channels: tuple[int, ...] = (32, 48)  # each halves the patch
    action_hidden: int = 64
    hidden: int = 64


class TargetCrop(QNetwork):
    """Convolutions see the image once; each action then reads their map where it would put the gripper."""

    def __init__(self, spec: InputSpec, parameters: TargetCropParameters) -> None:
        super().__init__(spec)
        p = parameters
        self.patch = PatchSampler(
            spec, side_m=p.side_m, cells=p.cells, surface_z_m=p.surface_z_m, architecture="target_crop"
        )
        self.view = (spec.camera, p.side_m, p.cells, p.surface_z_m, len(p.map_channels), spec.normalisation.image_range)
        self.geometry = Trunk(kernel=5, stride=2, later_layers=len(p.map_channels) - 1)
        trunk, width = [], 3
        for index, channels in enumerate(p.map_channels):
            is_first = index == 0
            kernel, stride = (self.geometry.kernel, self.geometry.stride) if is_first else (3, 1)
            trunk.append(convolution(width, channels, kernel, stride=stride))
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
        return self._judge(self.patch.sample(features, pose_after(tools, grouped)), tools, grouped)

    def find_windows(self, images: Tensor, tools: Tensor, actions: Tensor) -> WindowedStates:
        """The part of the images that one action per state looks at: the same for every network of this geometry."""
        return find_windows(images, tools, actions, self.patch, self.geometry, self.image_range)

    def judge_windows(self, states: WindowedStates) -> Tensor:
        """Q (B,) of one action per state, from the part of the map that it reads."""
        sampled = torch.cat([window.look(self.trunk) for window in states.windows])
        logits = self._judge(self.patch.arrange(sampled), states.tools, states.actions)
        values = torch.empty_like(logits)
        values[states.order] = torch.sigmoid(logits)
        return values

    def _judge(self, patches: Tensor, tools: Tensor, grouped: Tensor) -> Tensor:
        embedding = self.embedding(self.tool_features(tools), grouped * self.action_scale)
        judged: Tensor = self.judge(self.first(patches) + embedding.flatten(0, 1)[:, :, None, None])
        return judged.squeeze(1)
