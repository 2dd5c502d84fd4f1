"""The part of each image that one action makes a network look at, cut out once for all networks that share a view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from opc_ros.policies.architectures.patch import PatchSampler, pose_after

_STEP = 8  # cells: window sizes are multiples of it, so that rows of one size can be processed together


@dataclass(frozen=True, slots=True)
class Trunk:
    """How a trunk's map lies over the image: the first layer has a stride, the others keep the size."""

    kernel: int
    stride: int
    later_layers: int  # each reads one cell further on every side

    def map_size(self, image_size: tuple[int, int]) -> tuple[int, int]:
        height, width = (-(-side // self.stride) for side in image_size)
        return height, width


@dataclass(frozen=True, slots=True)
class Windows:
    """Equally large windows of several states' images, and where the patch points lie in each window."""

    pixels: Tensor  # (K, 3, h, w), normalised; outside the image zero
    is_on_map: Tensor | None  # (K, 1, h, w) of the first layer's output, 0 outside the map; None: no cell is outside
    grid: Tensor  # (K, heights * n, n, 2), in the -1..1 units of the window without its margin

    def look(self, trunk: nn.Sequential) -> Tensor:
        """What the trunk's map holds at the patch points, (K, C, heights * n, n)."""
        features, is_on_map = self.pixels, self.is_on_map
        for index, block in enumerate(trunk):
            assert isinstance(block, nn.Sequential)
            convolution = block[0]
            assert isinstance(convolution, nn.Conv2d)
            if index and is_on_map is not None:
                # Every layer is padded with zeros outside the map, whatever a convolution would compute there.
                features = features * is_on_map
                is_on_map = is_on_map[:, :, 1:-1, 1:-1]
            features = nn.functional.conv2d(features, convolution.weight, convolution.bias, stride=convolution.stride)
            for layer in list(block)[1:]:
                features = layer(features)
        return nn.functional.grid_sample(features, self.grid, align_corners=False, padding_mode="zeros")


@dataclass(frozen=True, slots=True)
class WindowedStates:
    """States ordered by the size of their windows."""

    order: Tensor  # (B,): row numbers in the order given
    windows: tuple[Windows, ...]
    tools: Tensor  # (B, 5), in that order
    actions: Tensor  # (B, 1, 8), in that order


def find_windows(
    images: Tensor,
    tools: Tensor,
    actions: Tensor,
    sampler: PatchSampler,
    trunk: Trunk,
    pixel_range: tuple[float, float],
) -> WindowedStates:
    """The part of each image (B, H, W, 3) that its action (B, 8) makes the network look at."""
    height, width = trunk.map_size((images.shape[1], images.shape[2]))
    size = torch.tensor([width, height], dtype=torch.float32)
    grouped = actions[:, None]
    cells = ((sampler.project(pose_after(tools, grouped)).flatten(1, 3) + 1.0) * size - 1.0) / 2.0  # (B, points, 2)
    below = torch.nan_to_num(cells).floor()
    first = below.amin(dim=1).clamp(min=torch.zeros(2), max=size - 1)
    last = (below.amax(dim=1) + 1.0).clamp(min=torch.zeros(2), max=size - 1)
    extent = torch.minimum(torch.ceil((last - first + 1) / _STEP) * _STEP, size)
    origin = torch.minimum(first, size - extent)
    grid = ((cells - origin[:, None]) * 2.0 + 1.0) / extent[:, None] - 1.0
    grid = grid.view(len(images), -1, sampler.cells, 2)
    order, windows = [], []
    for rows, window in _by_size(extent):
        order.append(rows)
        starts = origin[rows].flip(1).to(torch.int64).numpy()
        pixels, is_on_map = _cut(images, rows.numpy(), starts, window, trunk, pixel_range)
        windows.append(Windows(pixels, is_on_map, grid[rows]))
    joined = torch.cat(order)
    return WindowedStates(joined, tuple(windows), tools[joined], grouped[joined])


def _by_size(extent: Tensor) -> Iterator[tuple[Tensor, tuple[int, int]]]:
    """For each window size that occurs: its row numbers, and its height and width."""
    sizes, kinds = torch.unique(extent, dim=0, return_inverse=True)
    for kind, (width, height) in enumerate(sizes.tolist()):
        yield torch.nonzero(kinds == kind).flatten(), (int(height), int(width))


def _cut(
    images: Tensor,
    rows: np.ndarray,
    starts: np.ndarray,
    window: tuple[int, int],
    trunk: Trunk,
    pixel_range: tuple[float, float],
) -> tuple[Tensor, Tensor | None]:
    """The pixels that a window of cells needs, and which of the first layer's cells are on the map."""
    low, high = pixel_range
    bytes_per_unit = 255.0 / (high - low)
    margin, shown = trunk.later_layers, images.numpy()
    image_size = images.shape[1], images.shape[2]
    map_size = trunk.map_size(image_size)
    cells = tuple(side + 2 * margin for side in window)
    sides = tuple(trunk.stride * (side - 1) + trunk.kernel for side in cells)
    canvas = np.full((len(rows), *sides, 3), -low * bytes_per_unit, dtype=np.float32)
    is_on_map = np.ones((len(rows), 1, *cells), dtype=np.float32)
    for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
        there, here = [], []
        for axis in range(2):
            begin = trunk.stride * (int(start[axis]) - margin) - trunk.kernel // 2
            from_pixel, to_pixel = max(0, begin), min(image_size[axis], begin + sides[axis])
            there.append(slice(from_pixel, to_pixel))
            here.append(slice(from_pixel - begin, to_pixel - begin))
            before = margin - int(start[axis])
            beyond = int(start[axis]) + window[axis] + margin - map_size[axis]
            cell_rows = is_on_map[index, 0] if axis == 0 else is_on_map[index, 0].T
            if before > 0:
                cell_rows[:before] = 0.0
            if beyond > 0:
                cell_rows[-beyond:] = 0.0
        canvas[index, here[0], here[1]] = shown[row, there[0], there[1]]
    pixels = torch.from_numpy(canvas).div_(bytes_per_unit).add_(low).permute(0, 3, 1, 2)
    return pixels, None if is_on_map.all() else torch.from_numpy(is_on_map)
