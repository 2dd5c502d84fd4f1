"""What a candidate expects as input, and which actions it was made for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from opc_ros.camera import CameraSpec, Row
from opc_ros.grasp import ActionBounds
from opc_ros.policies.action_space import ActionChoices, ActionSpace
from opc_ros.policies.image_view import ImageView


@dataclass(frozen=True, slots=True)
class Normalisation:
    """How a named architecture scales its inputs to order one; exported networks do that inside."""

    tool_centre_m: Row = (0.55, 0.0, 0.2, 0.04)  # x, y, z, aperture of an arm over its bin
    tool_spread_m: Row = (0.15, 0.15, 0.15, 0.04)
    image_range: tuple[float, float] = (-1.0, 1.0)  # what the bytes 0 and 255 become

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (*self.tool_centre_m, *self.tool_spread_m, *self.image_range))):
            raise ValueError("normalisation has a number that is not finite")
        if min(self.tool_spread_m) <= 0:
            raise ValueError(f"tool_spread_m is {list(self.tool_spread_m)}, expected above 0")
        if self.image_range[0] >= self.image_range[1]:
            raise ValueError(f"image_range is {list(self.image_range)}, expected the smaller number first")


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Image size, action bounds and scaling, camera, normalisation; how exported networks are called."""

    image_height: int
    image_width: int
    action_bounds: ActionBounds = field(default_factory=ActionBounds)
    action_scale: tuple[float, ...] | None = (
        None  # one factor for each number of an action; None: by the bounds, or 1 for exported networks
    )
    camera: CameraSpec | None = None
    image_layout: Literal["bhwc", "bchw"] = "bchw"
    image_values: Literal["bytes", "unit"] = "unit"  # 0..255 as uint8, or 0..1 as float32
    arguments: tuple[Literal["image", "tool", "action"], ...] = ("image", "tool", "action")  # in this order
    action_choices: tuple[tuple[float, ...], ...] | None = None  # the only actions it may take; None: all within bounds
    normalisation: Normalisation = field(default_factory=Normalisation)  # for named architectures
    image_decoding: Literal["reduced"] | None = None  # at the codec's smallest sufficient scale; None: in full

    def __post_init__(self) -> None:
        if not (1 <= self.image_height <= 4096 and 1 <= self.image_width <= 4096):
            raise ValueError(f"image is {self.image_width}x{self.image_height}, expected 1 to 4096 each way")
        if not (0 < self.action_bounds.displacement_m < math.inf):
            raise ValueError(f"action_bounds: displacement_m is {self.action_bounds.displacement_m}, expected above 0")
        if not (0 < self.action_bounds.rotation_rad <= math.pi):
            raise ValueError(f"action_bounds: rotation_rad is {self.action_bounds.rotation_rad}, expected 0 to pi")
        if self.action_scale is not None and not all(math.isfinite(v) and v != 0 for v in self.action_scale):
            raise ValueError(f"action_scale is {list(self.action_scale)}, expected finite numbers other than 0")
        if len(set(self.arguments)) != len(self.arguments) or "image" not in self.arguments:
            raise ValueError(f"arguments are {list(self.arguments)}, expected image, and others, once each")
        if self.action_choices is not None:
            ActionChoices(self.action_choices)

    @property
    def image_size(self) -> tuple[int, int]:
        return self.image_height, self.image_width

    @property
    def view(self) -> ImageView:
        return ImageView(self.image_size, is_reduced=self.image_decoding == "reduced")

    @property
    def action_space(self) -> ActionSpace:
        """The space that the greedy action is searched in."""
        return self.action_bounds if self.action_choices is None else ActionChoices(self.action_choices)

    def scale_by_bounds(self) -> tuple[float, ...]:
        """Factors that scale an action at its bounds to about one; explicit factors take precedence."""
        if self.action_scale is not None:
            return self.action_scale
        bounds = self.action_bounds
        sine = 1.0 / math.sin(min(bounds.rotation_rad, math.pi / 2))
        return (*(1.0 / bounds.displacement_m,) * 3, sine, 1.0, 1.0, 1.0, 1.0)
