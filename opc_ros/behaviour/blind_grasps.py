"""Seeded grasps all over a bin without looking into it: open, move there, down, close, lift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from opc_ros.arms.limits import WorkspaceBox
from opc_ros.grasp import ActionBounds, GraspAction, Observation, ToolState

_STREAM = 23  # separates these draws from others that start from the episode's seed
_NEAR_M = 0.01
_NEAR_RAD = 0.15
_BLOCKED_M = 0.004  # an arm that was sent down and stops this far short rests on something


@dataclass(frozen=True, slots=True)
class BlindSettings:
    """Where blind grasps go, and how varied they are."""

    margin_m: float = 0.04  # distance to the sides of the workspace: fingers need room beside a bin's walls
    depth_m: float = 0.03  # fingers close at most this far above the floor of the workspace
    largest_yaw_rad: float = math.pi / 2
    jitter_m: float = 0.003  # of every step, so that no two are alike
    stray: float = 0.05  # how often a step goes somewhere random instead


class Stage(Enum):
    """The stages of an attempt."""

    APPROACH = auto()
    DESCEND = auto()
    LIFT = auto()
    DONE = auto()


class BlindGrasps:
    """A player for arms with nothing but a workspace box; its actions depend only on the seed and the tool's pose."""

    name = "blind_grasps"

    def __init__(
        self, workspace: WorkspaceBox, bounds: ActionBounds | None = None, settings: BlindSettings | None = None
    ) -> None:
        self._workspace = workspace
        self._bounds = bounds or ActionBounds()
        self._settings = settings or BlindSettings()
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Draw where to grasp, and the path to it."""
        self._rng = rng = np.random.default_rng((seed, _STREAM))
        low, high, margin = np.array(self._workspace.low_m), np.array(self._workspace.high_m), self._settings.margin_m
        middle = (low + high)[:2] / 2
        reach = np.maximum((high - low)[:2] / 2 - margin, 0.0)
        self._x_m, self._y_m = (middle + rng.uniform(-reach, reach)).tolist()
        self._z_m = float(low[2] + rng.uniform(0.0, min(self._settings.depth_m, high[2] - low[2])))
        self._yaw_rad = float(rng.uniform(-self._settings.largest_yaw_rad, self._settings.largest_yaw_rad))
        self._hover_m = float(min(high[2], self._z_m + rng.uniform(0.08, 0.14)))
        self._stride_m = float(rng.uniform(0.6, 1.0)) * self._bounds.displacement_m
        self._stage = Stage.APPROACH
        self._left_m = math.inf  # height at which it was last sent down

    def choose(self, observation: Observation) -> GraspAction:
        tool = observation.tool
        if self._stage is Stage.DONE:
            return GraspAction(terminate=True)
        if self._stage is Stage.LIFT:
            self._stage = Stage.DONE
            return GraspAction(displacement_m=(0.0, 0.0, self._stride(self._hover_m - tool.z_m)))
        if self._rng.random() < self._settings.stray:
            return self._stray()
        if self._stage is Stage.DESCEND or self._is_above(tool):
            return self._descend(tool)
        turn = math.remainder(self._yaw_rad - tool.yaw_rad, math.tau)
        return GraspAction(
            displacement_m=(
                self._stride(self._x_m - tool.x_m),
                self._stride(self._y_m - tool.y_m),
                self._stride(self._hover_m - tool.z_m),
            ),
            rotation_rad=min(max(turn, -self._bounds.rotation_rad), self._bounds.rotation_rad),
            open_gripper=self._left_m == math.inf,
        )

    def _is_above(self, tool: ToolState) -> bool:
        across = max(abs(self._x_m - tool.x_m), abs(self._y_m - tool.y_m))
        return across < _NEAR_M and abs(math.remainder(self._yaw_rad - tool.yaw_rad, math.tau)) < _NEAR_RAD

    def _descend(self, tool: ToolState) -> GraspAction:
        """Move down to the drawn height, or as far as possible; then close."""
        self._stage = Stage.DESCEND
        is_blocked = tool.z_m > self._left_m - _BLOCKED_M
        self._left_m = tool.z_m
        if is_blocked or tool.z_m - self._z_m < _NEAR_M / 2:
            self._stage = Stage.LIFT
            return GraspAction(close_gripper=True)
        return GraspAction(displacement_m=(0.0, 0.0, max(self._z_m - tool.z_m, -self._stride_m)))

    def _stray(self) -> GraspAction:
        dx, dy, dz = self._rng.uniform(-self._stride_m, self._stride_m, size=3).tolist()
        self._left_m = math.inf if self._stage is Stage.APPROACH else self._left_m + self._stride_m
        return GraspAction(displacement_m=(dx, dy, abs(dz)))

    def _stride(self, way_m: float) -> float:
        jitter = float(self._rng.normal(0.0, self._settings.jitter_m))
        return min(max(way_m + jitter, -self._stride_m), self._stride_m)
