"""For games with few things in the image: the centre of brightness of some regions, and one value per action."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opc_ros.errors import CandidateError
from opc_ros.policies.architectures.network import Code, QNetwork
from opc_ros.policies.input_spec import InputSpec

_GAIN = 8.0  # a difference of an eighth of half an image is already large


@dataclass(frozen=True, slots=True)
class RegionMomentsParameters:
    """The regions, and the widths of the layers after them."""

    regions: tuple[tuple[int, float, float], ...] = ((0, 0.0, 1.0), (1, 0.0, 1.0), (2, 0.0, 1.0))
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        if len(self.regions) < 2:
            raise ValueError(f"regions has {len(self.regions)}, expected at least 2 to measure a distance between them")
        for index, (channel, left, right) in enumerate(self.regions):
            if channel not in (0, 1, 2) or not 0.0 <= left < right <= 1.0:
                raise ValueError(
                    f"regions[{index}] is {[channel, left, right]}, expected channel 0 to 2 and 0 <= left < right <= 1"
                )


class RegionMoments(QNetwork):
    """Sees each region (a channel between two fractions of the width) as its brightness and the centre of it.

    The regions have no weights, so these features can be computed once and trained on again and again. Values are not
    squashed: a score that counts lost points is below 0, and a discounted one never reaches 1.
    """

    choices: Tensor
    sums: Tensor

    def __init__(self, spec: InputSpec, parameters: RegionMomentsParameters) -> None:
        super().__init__(spec)
        if spec.action_choices is None:
            raise CandidateError("architecture region_moments: needs input: action_choices, to value each of them")
        if spec.normalisation.image_range != (0.0, 1.0):
            raise CandidateError(
                f"architecture region_moments: image_range is {list(spec.normalisation.image_range)}, expected "
                "[0, 1]: black weighs nothing"
            )
        self._regions = len(parameters.regions)
        self._pairs = tuple(zip(*itertools.combinations(range(self._regions), 2), strict=True))
        self.register_buffer("choices", torch.tensor(spec.action_choices), persistent=False)
        self.register_buffer("sums", _weights_of_sums(spec.image_size, parameters.regions), persistent=False)
        layers: list[nn.Module] = []
        units = self._regions**2 + 2 * self._regions
        for hidden in parameters.hidden:
            layers += [nn.Linear(units, hidden), nn.ReLU()]
            units = hidden
        self.judge = nn.Sequential(*layers, nn.Linear(units, len(spec.action_choices)))

    def encode(self, images: Tensor, tools: Tensor) -> Code:
        return (self.judge(self.look(images)),)

    def look(self, images: Tensor) -> Tensor:
        """Brightness, centres and distances of the regions in images (B, H, W, 3) of bytes, as (B, features)."""
        mass, row, column = (images.flatten(1).float() @ self.sums).split(self._regions, dim=1)
        is_there = (mass > 0).float()
        row, column = (total / mass.clamp(min=1e-6) for total in (row, column))
        first, second = map(list, self._pairs)
        both = is_there[:, first] * is_there[:, second]
        apart = [torch.tanh(_GAIN * (at[:, first] - at[:, second])) * both for at in (row, column)]
        return torch.cat([is_there, row, column, *apart], dim=1)

    def logits(self, code: Code, actions: Tensor) -> Tensor:
        """An action that is not one of the choices counts as the nearest one."""
        (values,) = code
        nearest = torch.cdist(actions, self.choices).argmin(dim=1)
        return values.gather(1, nearest.view(values.shape[0], -1)).flatten()

    def head(self, code: Code, actions: Tensor) -> Tensor:
        return self.logits(code, actions)


def _weights_of_sums(size: tuple[int, int], regions: tuple[tuple[int, float, float], ...]) -> Tensor:
    """A pixel's weight in each region's sums, (HW3, 3R): brightness, then brightness times row and times column."""
    height, width = size
    down, across = (((torch.arange(length) + 0.5) / length) for length in (height, width))
    weights = torch.zeros(height, width, 3, 3, len(regions))
    for index, (channel, left, right) in enumerate(regions):
        inside = ((across >= left) & (across < right)).float().expand(height, width)
        weights[:, :, channel, 0, index] = inside
        weights[:, :, channel, 1, index] = inside * (down * 2 - 1)[:, None]
        weights[:, :, channel, 2, index] = inside * (across * 2 - 1)
    return weights.view(height * width * 3, 3 * len(regions)) / 255.0
