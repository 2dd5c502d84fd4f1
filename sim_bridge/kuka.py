"""The twin's arm: an LBR iiwa 14 R820 with a gripper, where it starts, and where its tool may go."""

from __future__ import annotations

import numpy as np

from opc_ros.arms.kinematics import Kinematics, ToolMount, ToolPose, find_arm_model
from opc_ros.arms.safety import WorkspaceBox

MODEL = find_arm_model("lbr_iiwa_14_r820")
TORQUE_LIMITS_NM = np.array([320.0, 320.0, 176.0, 176.0, 110.0, 40.0, 40.0])  # (7,), from the datasheet
FLANGE_TO_TOOL_M = 0.145  # to the point between the fingertips
KINEMATICS = Kinematics(MODEL, ToolMount(z_m=FLANGE_TO_TOOL_M))

HOME = ToolPose(x_m=0.60, y_m=0.0, z_m=0.22, yaw_rad=0.0)
WORKSPACE = WorkspaceBox(low_m=(0.45, -0.15, 0.02), high_m=(0.75, 0.15, 0.34))  # above the tray's floor
LARGEST_YAW_RAD = 2.6  # either way; further, the last joint would meet its limit in a corner of the box
