"""A Q network whose answer is the mean of several of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.network import Code, QNetwork
from opc_ros.policies.input_spec import InputSpec

_MOST_MEMBERS = 32


@dataclass(frozen=True, slots=True)
class AverageParameters:
    """The members' architecture, and how many there are."""

    architecture: str = "target_crop"
    hyper_parameters: dict[str, Any] = field(default_factory=dict)
    members: int = 2

    def __post_init__(self) -> None:
        if self.architecture == "average":
            raise ValueError("architecture is average, expected the members' architecture: no average of averages")
        if not 2 <= self.members <= _MOST_MEMBERS:
            raise ValueError(f"members is {self.members}, expected 2 to {_MOST_MEMBERS}")


class Average(QNetwork):
    """Members err in different places, so an action that all of them like is usually a good one."""

    def __init__(self, spec: InputSpec, members: Sequence[QNetwork]) -> None:
        super().__init__(spec)
        self.members = nn.ModuleList(members)

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        return tuple(part for member in self.networks() for part in member.encode(images, tools))

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        return torch.logit(self.head(code, actions), eps=1e-6)

    def head(self, code: Code, actions: Tensor) -> Tensor:
        size = len(code) // len(self.members)  # members share an architecture, so their codes have equally many parts
        answers = [
            member.head(code[index * size : (index + 1) * size], actions)
            for index, member in enumerate(self.networks())
        ]
        return torch.stack(answers).mean(dim=0)

    def networks(self) -> list[QNetwork]:
        return [member for member in self.members if isinstance(member, QNetwork)]
