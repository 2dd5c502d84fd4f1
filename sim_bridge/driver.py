"""Does for a simulated arm what a real arm's driver does: follows, grips, holds, and watches its commander."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.safety import StopSwitch, Watchdog
from opc_ros.arms.trajectory import Trajectory
from opc_ros.errors import OutOfReach
from sim_bridge.trajectory_controller import TrajectoryController
from sim_bridge.world import World

CONTROL_S = 0.01  # simulated time between two joint commands
ARRIVED_RAD = 1e-3
HOLD_RAD = 0.2  # a stopped arm need not refuse a trajectory this close to where it is: it is a hold


class DriverState(StrEnum):
    """What the arm is doing."""

    IDLE = "idle"
    MOVING = "moving"
    HOLDING = "holding"  # its commander went silent
    STOPPED = "stopped"


class TwinDriver:
    """One simulated arm between its commander and its world.

    Commands and heartbeats feed a watchdog; if both cease, the arm holds and drops its trajectory. A stop also holds
    it, and commands are refused until the stop is lifted.
    """

    def __init__(self, world: World, switch: StopSwitch, *, command_timeout_s: float, now: Callable[[], float]) -> None:
        self._world = world
        self._switch = switch
        self._watchdog = Watchdog("commands and heartbeats", command_timeout_s, now)
        self._controller = TrajectoryController(JointLimits(world.kinematics.model), world.joint_positions_rad())
        self._silence = ""

    @property
    def state(self) -> DriverState:
        if self._switch.reason is not None:
            return DriverState.STOPPED
        if self._silence:
            return DriverState.HOLDING
        return DriverState.MOVING if self._controller.is_moving else DriverState.IDLE

    @property
    def reason(self) -> str:
        """Why the arm may not move; empty while it may."""
        return self._switch.reason or self._silence

    def follow(self, trajectory: Trajectory) -> None:
        """Follow a trajectory from now on; raises if the arm is stopped or a joint would exceed its limits."""
        self.beat()
        if self._switch.reason is not None and self._is_hold(trajectory):
            return
        self._switch.refuse_if_pressed()
        self._controller.follow(trajectory)

    def grip(self, aperture_m: float) -> None:
        """Send the fingers to an opening; raises if the arm is stopped or the opening is not a number."""
        self.beat()
        self._switch.refuse_if_pressed()
        if not np.isfinite(aperture_m):
            raise OutOfReach(f"gripper command is {aperture_m}, expected an opening in metres")
        self._world.command_aperture(aperture_m)

    def beat(self) -> None:
        """A sign of life from the commander."""
        self._watchdog.feed()
        self._silence = ""

    def say_goodbye(self) -> None:
        """The commander signs off: hold, and stop watching for it."""
        self._controller.hold()
        self._watchdog.rest()
        self._silence = ""

    def is_sent_to(self, joints_rad: np.ndarray) -> bool:
        """Whether these joint angles (J,) are where the arm is being held."""
        return bool(np.abs(self._controller.setpoint_rad - joints_rad).max() < ARRIVED_RAD)

    def hold(self) -> None:
        """Drop the trajectory and hold."""
        self._controller.hold()

    def lay_out(self, seed: int) -> None:
        """Fill the bin, and put the arm at its start pose."""
        self._switch.refuse_if_pressed()
        self._world.lay_out(seed)
        self._controller.put(self._world.joint_positions_rad())

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        while seconds > 1e-9:
            part_s = min(seconds, CONTROL_S)
            self._world.command_joints(self._controller.advance(part_s))
            self._world.advance(part_s)
            seconds -= part_s

    def look_after_commander(self) -> str:
        """Hold if commands and heartbeats have ceased; one line per silence, otherwise empty."""
        if silence := self._watchdog.bark():
            was_moving = self._controller.hold()
            self._silence = silence
            return f"{silence}; holding{' in mid motion' if was_moving else ''}"
        return ""

    def take_clamped(self) -> tuple[str, ...]:
        """One line about what had to be slowed down since the last call, if anything."""
        return self._controller.take_clamped()

    def _is_hold(self, trajectory: Trajectory) -> bool:
        return bool(np.abs(trajectory.positions_rad - self._controller.setpoint_rad).max() < HOLD_RAD)
