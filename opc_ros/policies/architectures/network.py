"""The torch side of a Q function: look at the image once, judge many actions."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn

from opc_ros.grasp import ACTION_SIZE
from opc_ros.policies.architectures.seeing import TOOL_FEATURES, SeeingNetwork
from opc_ros.policies.input_spec import InputSpec

Code = tuple[Tensor, ...]  # each (B, ...)


class QNetwork(SeeingNetwork, abc.ABC):
    """A Q network in two halves; Q is the sigmoid of the logit, between 0 and 1, unless a network overrides that."""

    action_scale: Tensor

    def __init__(self, spec: InputSpec) -> None:
        super().__init__(spec)
        self.register_buffer("action_scale", torch.tensor(spec.scale_by_bounds()), persistent=False)

    @abc.abstractmethod
    def encode(self, images: Tensor, tools: Tensor) -> Code:
        """Encode images (B, H, W, 3) uint8 and tools (B, 5) into whatever `logits` needs."""

    @abc.abstractmethod
    def logits(self, code: Code, actions: Tensor) -> Tensor:
        """Logits (B * K,) of actions (B * K, 8) in the arm's own units; the first K belong to the first state."""

    def head(self, code: Code, actions: Tensor) -> Tensor:
        return torch.sigmoid(self.logits(code, actions))

    def forward(self, images: Tensor, tools: Tensor, actions: Tensor) -> Tensor:
        return self.head(self.encode(images, tools), actions)


class ActionEmbedding(nn.Module):
    """A small network over tool and action."""

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.first = nn.Linear(TOOL_FEATURES + ACTION_SIZE, hidden)
        self.second = nn.Linear(hidden, out)

    def forward(self, tool_features: Tensor, scaled_actions: Tensor) -> Tensor:
        """Tools (B, 6) and their actions (B, K, 8) as (B, K, out)."""
        tools = tool_features[:, None].expand(-1, scaled_actions.shape[1], -1)
        hidden = torch.relu(self.first(torch.cat([tools, scaled_actions], dim=2)))
        return torch.relu(self.second(hidden))


def group_by_state(actions: Tensor, states: Tensor) -> Tensor:
    """Actions (B * K, A) of B states as (B, K, A)."""
    return actions.view(states.shape[0], -1, actions.shape[-1])


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, *, is_padded: bool = True) -> nn.Sequential:
    """Convolution, batch norm and ReLU; padded, it only divides the image's size by its stride."""
    padding = kernel // 2 if is_padded else 0
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
