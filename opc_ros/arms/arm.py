"""The Arm protocol, and ScriptedArm, the fake that ships beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np

from opc_ros.arms.stoppable_arm import StoppableArm
from opc_ros.grasp import ActionBounds, GraspAction, Observation, ToolState


@dataclass(frozen=True, slots=True)
class Motion:
    """What became of one action."""

    sent: GraspAction  # after clamping
    clamped: tuple[str, ...] = ()  # one line for each limit that changed it


class Arm(Protocol):
    """An arm over a bin of objects, real or simulated."""

    @property
    def name(self) -> str:
        """The robot's name, as it is stored in episodes."""
        ...

    def begin(self, seed: int) -> Observation:
        """Empty the gripper, go to the start pose and observe. A simulated arm fills its bin from the seed."""
        ...

    def observe(self) -> Observation:
        """Take a fresh image and measure the tool."""
        ...

    def apply(self, action: GraspAction) -> Motion:
        """Carry out one action and wait until it is done; one outside the limits is clamped, and `Motion` says so."""
        ...

    def finish(self) -> bool:
        """Lift, and return whether an object is held."""
        ...

    def stop(self, reason: str) -> None:
        """Hold at once; nothing moves until the stop is lifted."""
        ...

    def release(self) -> None:
        """Lift a stop; raises ArmStopped where only a person may, with a signed release."""
        ...

    def close(self) -> None:
        """Release the arm's resources and leave it at rest."""
        ...


class ScriptedArm(StoppableArm):
    """A fake: no physics, one coloured disc that is held if the gripper closes close enough to it.

    Everything it does follows from its seed, so tests and demonstrations can predict it.
    """

    HOME = ToolState(x_m=0.55, y_m=0.0, z_m=0.30, yaw_rad=0.0, aperture_m=0.08)
    FLOOR_M = 0.02
    REACH_M = 0.03  # how close the tool must be, horizontally and vertically, to hold the disc

    def __init__(
        self,
        name: str = "scripted",
        *,
        image_size: int = 472,
        bounds: ActionBounds | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        """`now` gives the timestamps; without it, they start at zero and are 100 ms apart."""
        super().__init__(name)
        self._image_size = image_size
        self._bounds = bounds or ActionBounds()
        self._now = now or self._tick
        self._ticks = 0
        self._tool = self.HOME
        self._disc_xy = (0.55, 0.0)
        self._is_holding = False
        self._background: np.ndarray = np.zeros((image_size, image_size, 3), dtype=np.uint8)

    @property
    def disc_xy(self) -> tuple[float, float]:
        """Where the disc lies, in the base frame: what a scripted policy aims at."""
        return self._disc_xy

    def begin(self, seed: int) -> Observation:
        self._refuse_if_stopped()
        rng = np.random.default_rng(seed)
        self._tool = self.HOME
        self._is_holding = False
        self._disc_xy = (float(rng.uniform(0.45, 0.65)), float(rng.uniform(-0.1, 0.1)))
        speckle = rng.integers(90, 130, size=(32, 32, 3), dtype=np.uint8)
        size = (self._image_size, self._image_size)
        self._background = np.asarray(cv2.resize(speckle, size, interpolation=cv2.INTER_NEAREST), dtype=np.uint8)
        return self.observe()

    def observe(self) -> Observation:
        image = self._background.copy()
        self._draw(image, self._disc_xy, radius_m=0.025, colour=(220, 60, 40))
        self._draw(image, (self._tool.x_m, self._tool.y_m), radius_m=0.01 + self._tool.z_m * 0.1, colour=(40, 60, 220))
        return Observation(stamp_ns=self._now(), image=image, tool=self._tool)

    def apply(self, action: GraspAction) -> Motion:
        self._refuse_if_stopped()
        clamped = self._bounds.violations(action)
        sent = self._bounds.clamp(action) if clamped else action
        dx, dy, dz = sent.displacement_m
        height = self._tool.z_m + dz
        if height < self.FLOOR_M:
            clamped = (*clamped, f"tool height is {height:.4f} m, allowed from {self.FLOOR_M:.4f}")
            height = self.FLOOR_M
            sent = GraspAction(
                displacement_m=(dx, dy, height - self._tool.z_m),
                rotation_rad=sent.rotation_rad,
                open_gripper=sent.open_gripper,
                close_gripper=sent.close_gripper,
                terminate=sent.terminate,
            )
        aperture = 0.08 if sent.open_gripper else 0.0 if sent.close_gripper else self._tool.aperture_m
        self._tool = ToolState(
            x_m=self._tool.x_m + dx,
            y_m=self._tool.y_m + dy,
            z_m=height,
            yaw_rad=math.remainder(self._tool.yaw_rad + sent.rotation_rad, math.tau),
            aperture_m=aperture,
        )
        if sent.open_gripper:
            self._is_holding = False
        elif sent.close_gripper:
            across = math.hypot(self._tool.x_m - self._disc_xy[0], self._tool.y_m - self._disc_xy[1])
            self._is_holding = across <= self.REACH_M and height <= self.FLOOR_M + self.REACH_M
        if self._is_holding:
            self._disc_xy = (self._tool.x_m, self._tool.y_m)
        return Motion(sent=sent, clamped=clamped)

    def finish(self) -> bool:
        return self._is_holding

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks * 100_000_000

    def _draw(
        self, image: np.ndarray, xy: tuple[float, float], *, radius_m: float, colour: tuple[int, int, int]
    ) -> None:
        pixels_per_m = self._image_size / 0.6
        column = int((xy[1] + 0.3) * pixels_per_m)
        row = int((0.85 - xy[0]) * pixels_per_m)
        cv2.circle(image, (column, row), int(radius_m * pixels_per_m), colour, thickness=-1)
