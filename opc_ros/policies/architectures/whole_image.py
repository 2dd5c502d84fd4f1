"""QT-Opt's shape at any scale: convolutions over the whole image, with the action added in the middle."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.network import ActionEmbedding, Code, QNetwork, convolution, group_by_state
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class WholeImageParameters:
    """Widths and depths; the defaults suit images of about 96x96."""

    stem_channels: int = 24
    stem_kernel: int = 5
    stem_pool: int = 2
    trunk_channels: tuple[int, ...] = (32, 32)
    trunk_kernel: int = 3
    trunk_pool: int = 3
    head_channels: tuple[int, ...] = (48,)
    head_pool: int = 2
    tail_channels: tuple[int, ...] = (48,)
    is_tail_padded: bool = True  # False: each tail convolution trims the map by one cell all around
    action_hidden: int = 64
    hidden: tuple[int, ...] = (64, 64)
    has_coordinates: bool = True  # two more input channels with each pixel's row and column


# Kalashnikov et al. 2018, for images of 472x472: 1.2 million parameters.
QT_OPT_PARAMETERS = WholeImageParameters(
    stem_channels=64,
    stem_kernel=6,
    stem_pool=3,
    trunk_channels=(64,) * 6,
    trunk_kernel=5,
    trunk_pool=3,
    head_channels=(64,) * 6,
    head_pool=2,
    tail_channels=(64,) * 3,
    is_tail_padded=False,
    action_hidden=256,
    hidden=(64, 64),
    has_coordinates=False,
)


class WholeImage(QNetwork):
    """Knows nothing about cameras: it must learn from tool pose and image where the tool is."""

    def __init__(self, spec: InputSpec, parameters: WholeImageParameters) -> None:
        super().__init__(spec)
        p = parameters
        inputs = 5 if p.has_coordinates else 3
        trunk = [convolution(inputs, p.stem_channels, p.stem_kernel, stride=2), nn.MaxPool2d(p.stem_pool)]
        width = p.stem_channels
        for channels in p.trunk_channels:
            trunk.append(convolution(width, channels, p.trunk_kernel))
            width = channels
        trunk.append(nn.MaxPool2d(p.trunk_pool))
        self.trunk = nn.Sequential(*trunk)
        self.embedding = ActionEmbedding(p.action_hidden, width)
        middle: list[nn.Module] = []
        for channels in p.head_channels:
            middle.append(convolution(width, channels, 3))
            width = channels
        middle.append(nn.MaxPool2d(p.head_pool))
        for channels in p.tail_channels:
            middle.append(convolution(width, channels, 3, is_padded=p.is_tail_padded))
            width = channels
        self.middle = nn.Sequential(*middle)
        rows = torch.linspace(-1, 1, spec.image_height)[:, None].expand(spec.image_height, spec.image_width)
        columns = torch.linspace(-1, 1, spec.image_width)[None, :].expand(spec.image_height, spec.image_width)
        self.coordinates: Tensor | None
        self.register_buffer(
            "coordinates", torch.stack([rows, columns])[None] if p.has_coordinates else None, persistent=False
        )
        size = width * self._cells(spec)
        layers: list[nn.Module] = []
        for units in p.hidden:
            layers += [nn.Linear(size, units), nn.ReLU()]
            size = units
        self.judge = nn.Sequential(*layers, nn.Linear(size, 1))

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        return self._look(images), self.tool_features(tools)

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        features, tool_features = code
        embedding = self.embedding(tool_features, group_by_state(actions, features) * self.action_scale)
        mixed = features[:, None] + embedding[:, :, :, None, None]
        judged: Tensor = self.judge(self.middle(mixed.flatten(0, 1)).flatten(1))
        return judged.squeeze(1)

    def _look(self, images: Tensor) -> Tensor:
        pixels = self.pixels(images)
        if self.coordinates is not None:
            pixels = torch.cat([pixels, self.coordinates.expand(pixels.shape[0], -1, -1, -1)], dim=1)
        features: Tensor = self.trunk(pixels)
        return features

    def _cells(self, spec: InputSpec) -> int:
        """How many cells the last feature map has for this image size."""
        was_training = self.training
        self.eval()
        with torch.no_grad():
            features = self.middle(self._look(torch.zeros(1, *spec.image_size, 3, dtype=torch.uint8)))
        self.train(was_training)
        return int(features.shape[2] * features.shape[3])
