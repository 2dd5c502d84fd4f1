"""For games: two convolutions over a picture whose channels are moments in time, one value for each choice of action."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opc_ros.errors import CandidateError
from opc_ros.policies.architectures.network import Code, QNetwork
from opc_ros.policies.input_spec import InputSpec


@dataclass(frozen=True, slots=True)
class StackedFramesParameters:
    """How wide; the defaults suit pictures of about 40x40 with little in them."""

    channels: tuple[int, int] = (16, 32)
    kernels: tuple[int, int] = (8, 4)
    strides: tuple[int, int] = (4, 2)
    hidden: int = 128
    brightest: float = 64.0  # the byte that counts as 1


class StackedFrames(QNetwork):
    """Values are not squashed: a score that counts lost points is below 0, and a discounted one never reaches 1."""

    choices: Tensor

    def __init__(self, spec: InputSpec, parameters: StackedFramesParameters) -> None:
        super().__init__(spec)
        if spec.action_choices is None:
            raise CandidateError(
                "architecture stacked_frames: needs input: action_choices, one value comes out for each"
            )
        p = parameters
        self.register_buffer("choices", torch.tensor(spec.action_choices), persistent=False)
        self.brightest = p.brightest
        layers: list[nn.Module] = []
        width = 3
        for channels, kernel, stride in zip(p.channels, p.kernels, p.strides, strict=True):
            layers += [nn.Conv2d(width, channels, kernel, stride=stride, padding=(kernel - stride) // 2), nn.ReLU()]
            width = channels
        self.trunk = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            cells = self.trunk(torch.zeros(1, 3, *spec.image_size)).shape[1]
        self.judge = nn.Sequential(nn.Linear(cells, p.hidden), nn.ReLU(), nn.Linear(p.hidden, len(spec.action_choices)))

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        return (self.values(images),)

    def values(self, images: Tensor) -> Tensor:
        """Q of every choice, (B, choices), in pictures (B, H, W, 3) of bytes."""
        found: Tensor = self.judge(self.trunk(images.permute(0, 3, 1, 2).float() / self.brightest))
        return found

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        """An action that is none of the choices counts as the nearest one."""
        (values,) = code
        nearest = torch.cdist(actions, self.choices).argmin(dim=1)
        return values.gather(1, nearest.view(values.shape[0], -1)).flatten()

    def head(self, code: Code, actions: Tensor) -> Tensor:
        return self.logits(code, actions)
