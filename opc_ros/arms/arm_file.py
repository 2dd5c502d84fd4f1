"""Writes a new arm file: what was found, what was assumed, and what a person has to check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opc_ros.arms.draft import ArmDraft
from opc_ros.arms.kinematics import ToolMount


@dataclass(frozen=True, slots=True)
class DriverDraft:
    """How driver, gripper and camera are reached."""

    namespace: str = ""
    joint_names: tuple[str, ...] = ()  # the driver's names; empty: the URDF's
    joint_states: str = "joint_states"
    controller: str = "joint_trajectory_controller"
    controller_by: str = "topic"
    gripper_driver: str = "gripper_command"
    gripper_command: str = "gripper_controller/gripper_cmd"
    gripper_joint: str = "finger_joint"
    camera: str = "camera/image/compressed"
    is_camera_compressed: bool = True


def _park(arm: ArmDraft) -> list[str]:
    """A twin parks its arm, and the default pose has seven joints."""
    if len(arm.joint_names) == 7:
        return []
    parked = ", ".join(f"{math.radians(angle):.3f}" for angle in arm.posture_deg)
    return [f"body: {{parked_rad: [{parked}]}}  # only a twin needs it"]


def write_arm_file(robot: str, arm: ArmDraft, mount: ToolMount, driver: DriverDraft, seen: Sequence[str]) -> str:
    """YAML with comments; `seen` are lines about what was found running at the time."""
    names = driver.joint_names or arm.joint_names
    box = arm.workspace
    heard = [f"# {line}" for line in seen] or [
        "# Nothing was checked against a running driver: do so with `opc doctor --robot`."
    ]
    return "\n".join(
        [
            "# Lines marked CHECK were assumed; measure them before the arm moves.",
            *heard,
            "",
            f"robot: {robot}",
            f'namespace: "{driver.namespace}"',
            "model:",
            f"  urdf: {arm.urdf}",
            f"  flange: {arm.flange}",
            f"  posture_deg: [{', '.join(f'{angle:g}' for angle in arm.posture_deg)}]  # tool down; joints keep "
            f"{arm.margin_deg:.0f} deg from their limits all over the workspace",
            f"  held_joints: [{', '.join(map(str, arm.held_joints))}]",
            *_park(arm),
            f"joint_names: [{', '.join(names)}]",
            f"joint_states: {driver.joint_states}",
            f"controller: {driver.controller}",
            f"controller_by: {driver.controller_by}",
            "guard: arm_guard/status",
            "",
            "tool:  # CHECK: from the flange to the point between the finger tips",
            f"  z_m: {mount.z_m:g}",
            f"  yaw_rad: {mount.yaw_rad:.6g}",
            "workspace:  # CHECK: of that point, in the base frame; nothing solid may be in it but the bin's content",
            f"  low_m: [{', '.join(f'{value:g}' for value in box.low_m)}]",
            f"  high_m: [{', '.join(f'{value:g}' for value in box.high_m)}]",
            f"start: {{x_m: {arm.start[0]:.3f}, y_m: {arm.start[1]:.3f}, z_m: {arm.start[2]:.3f}, yaw_rad: 0.0}}",
            "",
            "motion:  # slow to begin with",
            "  speed_fraction: 0.1",
            "  joint_margin_deg: 5.0",
            "  acceleration_rad_s2: 1.0",
            "  jerk_rad_s3: 10.0",
            "  tool_speed_m_s: 0.1",
            "",
            "gripper:",
            f"  driver: {driver.gripper_driver}",
            f"  command: {driver.gripper_command}",
            f"  state: {driver.joint_states}",
            f"  joint: {driver.gripper_joint}",
            "  metres_per_unit: 2.0  # CHECK: 2 if the joint reports one finger, 1 if it reports the opening",
            "  open_m: 0.08  # CHECK",
            "",
            "camera:",
            f"  topic: {driver.camera}",
            f"  is_compressed: {'true' if driver.is_camera_compressed else 'false'}",
            "  is_reliable: false",
            "",
        ]
    )
