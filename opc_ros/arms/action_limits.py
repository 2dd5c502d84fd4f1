"""Clamps a grasp action to its bounds, the workspace and what the joints can reach."""

from __future__ import annotations

import dataclasses

import numpy as np

from opc_ros.arms.arm import Motion
from opc_ros.arms.kinematics import Kinematics, ToolPose
from opc_ros.arms.limits import JointLimits, WorkspaceBox
from opc_ros.arms.trajectory import find_reachable
from opc_ros.errors import OutOfReach
from opc_ros.grasp import ActionBounds, GraspAction


@dataclasses.dataclass(frozen=True, slots=True)
class ActionLimits:
    """Every limit that may shorten an action of one arm."""

    bounds: ActionBounds
    workspace: WorkspaceBox
    kinematics: Kinematics
    joints: JointLimits

    def limit(self, action: GraspAction, start_rad: np.ndarray) -> tuple[ToolPose, Motion]:
        """The goal of an action that starts at these joint angles (J,), and the action as it is sent.

        An arm outside its workspace is moved back inside, unless that takes a larger motion than one action allows:
        then the action is refused.
        """
        clamped = self.bounds.violations(action)
        sent = self.bounds.clamp(action) if clamped else action
        here = self.kinematics.locate_tool(start_rad)
        dx, dy, dz = sent.displacement_m
        (x, y, z), outside = self.workspace.clamp((here.x_m + dx, here.y_m + dy, here.z_m + dz))
        goal = ToolPose(x, y, z, here.yaw_rad + sent.rotation_rad)
        goal, share, unreachable = find_reachable(self.kinematics, self.joints, start_rad, goal)
        if outside or unreachable:
            sent = dataclasses.replace(
                sent,
                displacement_m=(goal.x_m - here.x_m, goal.y_m - here.y_m, goal.z_m - here.z_m),
                rotation_rad=sent.rotation_rad * share,
            )
        for line in self.bounds.violations(sent):
            raise OutOfReach(f"tool is outside the workspace, and on the way back {line}; begin a new episode")
        return goal, Motion(sent=sent, clamped=(*clamped, *outside, *unreachable))
