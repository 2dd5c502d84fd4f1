"""TwinArm: a simulated arm in this process, for collecting and training fast."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from opc_ros.arms.arm import Motion
from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.limits import WorkspaceBox
from opc_ros.arms.stoppable_arm import StoppableArm
from opc_ros.grasp import ActionBounds, GraspAction, Observation
from sim_bridge.arm_model import OPEN_APERTURE_M
from sim_bridge.world import World, WorldSpec

EPOCH_NS = 1_500_000_000_000_000_000  # timestamps are simulated time after this, so that a seed gives the same bytes
LIFT_TO_M = 0.18

_SPEED_M_S = 0.42
_TURN_RAD_S = 1.8
_SHORTEST_MOVE_S = 0.1
_HEADROOM = 0.8  # of the joints' speed limits
_WAYPOINT_S = 0.025
_COME_TO_REST_S = 0.05
_AT_THE_EDGE_M = 0.001  # an arm sent to the edge of its workspace comes to rest slightly outside, which is no violation
_GRIP_S = 0.25  # long enough for the fingers to meet and press


class TwinArm(StoppableArm):
    """Carries out each action as a straight line of the tool, and simulates as much physics as that takes.

    A motion under way notices a stop within one waypoint and holds.
    """

    def __init__(
        self,
        world: WorldSpec | World,
        *,
        name: str = "twin",
        image_size: int = 472,
        bounds: ActionBounds | None = None,
        workspace: WorkspaceBox | None = None,
    ) -> None:
        """A World that is passed in is used as it is, and closed together with the arm."""
        super().__init__(name)
        self.world = world if isinstance(world, World) else World(world, image_size=image_size)
        self._bounds = bounds or ActionBounds()
        arm = self.world.spec.arm
        self._workspace = workspace or arm.workspace
        self._largest_yaw_rad = arm.body.largest_yaw_rad
        self._frames = 0

    def begin(self, seed: int) -> Observation:
        self._refuse_if_stopped()
        self.world.lay_out(seed)
        self._frames = 0
        return self.observe()

    def observe(self) -> Observation:
        # Two observations without motion in between still need different timestamps.
        stamp_ns = EPOCH_NS + round(self.world.time_s * 1e9) + self._frames
        self._frames += 1
        return Observation(stamp_ns=stamp_ns, image=self.world.render(), tool=self.world.tool_state())

    def apply(self, action: GraspAction) -> Motion:
        self._refuse_if_stopped()
        start = self._tool_pose()
        goal, motion = self._limit(action, start)
        self._move(start, goal)
        if motion.sent.open_gripper or motion.sent.close_gripper:
            self.world.command_aperture(OPEN_APERTURE_M if motion.sent.open_gripper else 0.0)
            self.world.advance(_GRIP_S)
        return motion

    def finish(self) -> bool:
        self._refuse_if_stopped()
        start = self._tool_pose()
        self._move(start, dataclasses.replace(start, z_m=max(start.z_m, LIFT_TO_M)))
        return self.world.is_holding()

    def close(self) -> None:
        super().close()
        self.world.close()

    def _hold_if_stopped(self) -> None:
        if self._stop_reason is not None:
            self.world.command_joints(self.world.joint_positions_rad())
            self._refuse_if_stopped()

    def _tool_pose(self) -> ToolPose:
        tool = self.world.tool_state()
        return ToolPose(tool.x_m, tool.y_m, tool.z_m, tool.yaw_rad)

    def _limit(self, action: GraspAction, start: ToolPose) -> tuple[ToolPose, Motion]:
        """Clamp an action to its bounds and the workspace."""
        lines = self._bounds.violations(action)
        bounded = self._bounds.clamp(action) if lines else action
        dx, dy, dz = bounded.displacement_m
        wanted = (start.x_m + dx, start.y_m + dy, start.z_m + dz)
        (x, y, z), outside = self._workspace.clamp(wanted)
        if math.dist(wanted, (x, y, z)) < _AT_THE_EDGE_M:
            outside = ()
        yaw = start.yaw_rad + bounded.rotation_rad
        if abs(yaw) > self._largest_yaw_rad:
            outside = (*outside, f"tool yaw is {yaw:+.4f} rad, allowed +-{self._largest_yaw_rad:.4f}")
            yaw = math.copysign(self._largest_yaw_rad, yaw)
        sent = bounded
        if outside:
            sent = dataclasses.replace(
                bounded,
                displacement_m=(x - start.x_m, y - start.y_m, z - start.z_m),
                rotation_rad=yaw - start.yaw_rad,
            )
        return ToolPose(x, y, z, yaw), Motion(sent=sent, clamped=(*lines, *outside))

    def _move(self, start: ToolPose, goal: ToolPose) -> None:
        """Move the tool along a straight line, then let it come to rest."""
        distance_m = math.dist((start.x_m, start.y_m, start.z_m), (goal.x_m, goal.y_m, goal.z_m))
        turn_rad = abs(goal.yaw_rad - start.yaw_rad)
        solve = self.world.kinematics.solve
        joints_s = np.abs(solve(goal) - solve(start)) / (self.world.kinematics.model.velocity_rad_s * _HEADROOM)
        seconds = max(_SHORTEST_MOVE_S, distance_m / _SPEED_M_S, turn_rad / _TURN_RAD_S, float(joints_s.max()))
        waypoints = math.ceil(seconds / _WAYPOINT_S)
        for index in range(1, waypoints + 1):
            self._hold_if_stopped()
            part = index / waypoints
            pose = ToolPose(
                x_m=start.x_m + part * (goal.x_m - start.x_m),
                y_m=start.y_m + part * (goal.y_m - start.y_m),
                z_m=start.z_m + part * (goal.z_m - start.z_m),
                yaw_rad=start.yaw_rad + part * (goal.yaw_rad - start.yaw_rad),
            )
            self.world.command_joints(solve(pose))
            self.world.advance(_WAYPOINT_S)
        self.world.advance(_COME_TO_REST_S)
