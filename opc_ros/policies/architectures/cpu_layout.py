"""Rearranges Q networks for inference on a CPU: the same function with fewer passes over memory."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.whole_image import WholeImage

_LANES = 16  # floats in a register; torch pools the channels left over one by one


def lay_out_for_cpu(network: nn.Module) -> None:
    """For networks that no longer train; a network that is already rearranged stays as it is.

    Networks that look at patches gain nothing from it and keep their exact values.
    """
    for part in list(network.modules()):
        if isinstance(part, WholeImage):
            _fold_coordinates(part)
            _rectify_after_pooling(part.trunk)
            _rectify_after_pooling(part.middle)
            # Channels last, as the first convolution's pixels already are: pooling then reads them contiguously.
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class PlacedConvolution(nn.Module):
    """A first convolution over pixels and coordinates; the share of the coordinates is the same for every image."""

    def __init__(self, convolution: nn.Conv2d, coordinates: Tensor) -> None:
        """`coordinates` (1, K, H, W) were the convolution's last input channels."""
        super().__init__()
        weight = convolution.weight.detach()
        channels = weight.shape[1] - coordinates.shape[1]
        bias = None if convolution.bias is None else convolution.bias.detach()
        self.stride, self.padding = convolution.stride, convolution.padding
        assert not isinstance(self.padding, str)
        self.weight = nn.Parameter(weight[:, :channels].contiguous(), requires_grad=False)
        of_coordinates = nn.functional.conv2d(coordinates, weight[:, channels:], bias, self.stride, self.padding)
        self.of_coordinates = nn.Parameter(of_coordinates, requires_grad=False)

    def forward(self, pixels: Tensor) -> Tensor:
        seen = nn.functional.conv2d(pixels, self.weight, None, self.stride, self.padding)
        return seen.add_(self.of_coordinates)


def _fold_coordinates(network: WholeImage) -> None:
    if network.coordinates is None:
        return
    stem = network.trunk[0]
    assert isinstance(stem, nn.Sequential)
    first = stem[0]
    assert isinstance(first, nn.Conv2d)
    with torch.no_grad():
        stem[0] = PlacedConvolution(first, network.coordinates)
    network.coordinates = None


def _rectify_after_pooling(layers: nn.Sequential) -> None:
    """The maximum of rectified values is the rectified maximum: exactly the same, with fewer values to rectify."""
    for index in range(len(layers) - 1):
        block, pool = layers[index], layers[index + 1]
        if isinstance(block, nn.Sequential) and isinstance(block[-1], nn.ReLU) and isinstance(pool, nn.MaxPool2d):
            block[-1] = nn.Identity()
            first = block[0]
            assert isinstance(first, (nn.Conv2d, PlacedConvolution))
            assert isinstance(pool.kernel_size, int)
            is_even = first.weight.shape[0] % _LANES == 0
            layers[index + 1] = nn.Sequential(pool if is_even else StridedPool(pool.kernel_size), nn.ReLU())


class StridedPool(nn.Module):
    """`MaxPool2d` for channel counts that do not fill registers: compares whole rows, then columns."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def forward(self, features: Tensor) -> Tensor:
        size = self._size
        height, width = (side // size * size for side in features.shape[2:])
        rows = functools.reduce(torch.maximum, [features[:, :, i:height:size, :width] for i in range(size)])
        return functools.reduce(torch.maximum, [rows[:, :, :, i::size] for i in range(size)])
