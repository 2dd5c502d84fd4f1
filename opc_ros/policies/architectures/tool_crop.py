"""A Q network that looks only at the surroundings of the tool's current position."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from opc_ros.policies.architectures.network import ActionEmbedding, Code, QNetwork, convolution, group_by_state
from opc_ros.policies.architectures.patch import HEIGHTS, PatchSampler
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class ToolCropParameters:
    """The size of the patch, and the widths of the network over it."""

    side_m: float = 0.32
    cells: int = 48
    surface_z_m: float = 0.02
    channels: tuple[int, ...] = (24, 32, 48, 64)  # each halves the patch
    code_size: int = 128
    action_hidden: int = 64
    hidden: int = 128


class ToolCrop(QNetwork):
    """The code holds everything about the image, so an action costs only a few small matrix products."""

    def __init__(self, spec: InputSpec, parameters: ToolCropParameters) -> None:
        super().__init__(spec)
        p = parameters
        self.patch = PatchSampler(
            spec, side_m=p.side_m, cells=p.cells, surface_z_m=p.surface_z_m, architecture="tool_crop"
        )
        layers, width, cells = [], 3 * HEIGHTS, p.cells
        for index, channels in enumerate(p.channels):
            layers.append(convolution(width, channels, 5 if index == 0 else 3, stride=2))
            width, cells = channels, (cells + 1) // 2
        self.trunk = nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * cells * cells, p.code_size), nn.ReLU())
        self.embedding = ActionEmbedding(p.action_hidden, p.hidden)
        self.from_code = nn.Linear(p.code_size, p.hidden)
        self.judge = nn.Sequential(nn.ReLU(), nn.Linear(p.hidden, p.hidden), nn.ReLU(), nn.Linear(p.hidden, 1))

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        patches = self.patch.sample(self.pixels(images), tools[:, None, :4])
        return self.from_code(self.trunk(patches)), self.tool_features(tools)

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        seen, tool_features = code
        embedding = self.embedding(tool_features, group_by_state(actions, seen) * self.action_scale)
        judged: Tensor = self.judge((seen[:, None] + embedding).flatten(0, 1))
        return judged.squeeze(1)
