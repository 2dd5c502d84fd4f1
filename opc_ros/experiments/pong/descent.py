"""One step of Adam for a few fully connected layers, with the gradient derived by hand.

For networks this small, automatic differentiation spends most of a step on bookkeeping; without it a step takes half
the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-5  # the decay rates of Adam's means, and a term that avoids division by 0


def flatten(layers: Sequence[nn.Module]) -> Tensor:
    """Move the weights of linear layers into one vector, (W,), so that an operation on all of them is a single one."""
    parameters = _parameters(layers)
    weights = torch.cat([parameter.detach().flatten() for parameter in parameters])
    for part, parameter in zip(_split(weights, parameters), parameters, strict=True):
        parameter.data = part
    return weights


def _parameters(layers: Sequence[nn.Module]) -> list[Tensor]:
    return [values for layer in layers if isinstance(layer, nn.Linear) for values in (layer.weight, layer.bias)]


def _split(weights: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    parts = weights.split([parameter.numel() for parameter in parameters])
    return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]


class Descent:
    """Trains the weights of linear layers, with ReLUs in between, on a Huber loss."""

    def __init__(self, layers: Sequence[nn.Module], learning_rate: float) -> None:
        self._linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        self._learning_rate = learning_rate
        self.weights = flatten(layers)
        self._gradient = torch.zeros_like(self.weights)
        self._mean = torch.zeros_like(self.weights)
        self._square = torch.zeros_like(self.weights)
        self._steps = 0
        self._parts = _split(self._gradient, _parameters(layers))

    def step(self, seen: Tensor, actions: Tensor, targets: Tensor, counts: Tensor) -> float:
        """Move Q of the actions towards the targets, all (B,), with a weight per row; returns the loss."""
        with torch.no_grad():
            inputs = [seen]
            for layer in self._linear[:-1]:
                inputs.append(torch.addmm(layer.bias, inputs[-1], layer.weight.t()).relu_())
            values = torch.addmm(self._linear[-1].bias, inputs[-1], self._linear[-1].weight.t())
            errors = values.gather(1, actions[:, None]).squeeze(1) - targets
            slopes = errors.clamp(-1.0, 1.0) * counts
            # Huber: e^2 / 2 up to 1, then |e| - 1/2; both are s (e - s/2) with s = e clipped at 1.
            loss = float(torch.dot(slopes, errors - slopes / 2)) / len(errors)
            self._differentiate(inputs, torch.zeros_like(values).scatter_(1, actions[:, None], slopes[:, None]))
            self._move()
        return loss

    def _differentiate(self, inputs: Sequence[Tensor], slopes: Tensor) -> None:
        """From the last layer to the first; `slopes`: gradient by the layer's outputs, times the batch size."""
        slopes = slopes / len(slopes)
        for index in reversed(range(len(self._linear))):
            torch.mm(slopes.t(), inputs[index], out=self._parts[2 * index])
            torch.sum(slopes, 0, out=self._parts[2 * index + 1])
            if index:
                slopes = torch.mm(slopes, self._linear[index].weight).mul_(inputs[index] > 0)

    def _move(self) -> None:
        self._steps += 1
        self._mean.lerp_(self._gradient, 1 - _FIRST)
        self._square.mul_(_SECOND).addcmul_(self._gradient, self._gradient, value=1 - _SECOND)
        scale = self._square.sqrt().div_(math.sqrt(1 - _SECOND**self._steps)).add_(_EPSILON)
        self.weights.addcdiv_(self._mean, scale, value=-self._learning_rate / (1 - _FIRST**self._steps))

    def state(self) -> dict[str, Tensor | int]:
        """Everything except the weights that the next steps depend on."""
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def restore(self, state: dict[str, Tensor | int]) -> None:
        self._mean.copy_(torch.as_tensor(state["mean"]))
        self._square.copy_(torch.as_tensor(state["square"]))
        self._steps = int(state["steps"])
