from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opc_ros.arms.action_limits import ActionLimits
from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import plan_line
from opc_ros.errors import OutOfReach
from opc_ros.grasp import GraspAction

ARM = ArmSettings()
KINEMATICS, JOINTS = ARM.kinematics(), ARM.joint_limits()
LIMITS = ActionLimits(ARM.bounds, ARM.workspace, KINEMATICS, JOINTS)
(LOW_X, LOW_Y, LOW_Z), (HIGH_X, HIGH_Y, HIGH_Z) = ARM.workspace.low_m, ARM.workspace.high_m

anywhere = st.floats(-1e3, 1e3, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(
    x=st.floats(LOW_X, HIGH_X),
    y=st.floats(LOW_Y, HIGH_Y),
    z=st.floats(LOW_Z, HIGH_Z),
    yaw=st.floats(-2.6, 2.6),
    displacement=st.tuples(anywhere, anywhere, anywhere),
    rotation=anywhere,
)
def test_whatever_is_asked_the_arm_stays_inside_every_limit_on_all_its_way(x, y, z, yaw, displacement, rotation):
    start = KINEMATICS.solve(ToolPose(x, y, z, yaw))
    asked = GraspAction(displacement_m=displacement, rotation_rad=rotation)
    goal, motion = LIMITS.limit(asked, start)
    assert LIMITS.bounds.violations(motion.sent) == ()
    assert bool(motion.clamped) == (motion.sent != asked)
    path = plan_line(KINEMATICS, JOINTS, start, goal, tool_speed_m_s=0.5)
    for joints in path.positions_rad:
        assert JOINTS.position_violations(joints) == ()
        tool = KINEMATICS.locate_tool(joints)
        assert ARM.workspace.clamp((tool.x_m, tool.y_m, tool.z_m))[1] == ()
    end = KINEMATICS.locate_tool(path.goal_rad)
    dx, dy, dz = motion.sent.displacement_m
    assert (end.x_m, end.y_m, end.z_m) == pytest.approx((x + dx, y + dy, z + dz), abs=2e-4)
    assert math.remainder(end.yaw_rad - yaw - motion.sent.rotation_rad, math.tau) == pytest.approx(0.0, abs=1e-6)


def test_an_action_within_its_limits_is_sent_as_chosen():
    action = GraspAction(displacement_m=(0.01, -0.02, -0.03), rotation_rad=0.1, close_gripper=True)
    goal, motion = LIMITS.limit(action, KINEMATICS.solve(ToolPose(0.6, 0.0, 0.2, 0.0)))
    assert motion.sent is action
    assert motion.clamped == ()
    assert (goal.x_m, goal.y_m, goal.z_m, goal.yaw_rad) == pytest.approx((0.61, -0.02, 0.17, 0.1))


def test_flags_survive_clamping():
    action = GraspAction(displacement_m=(0.0, 0.0, -0.08), close_gripper=True, terminate=True)
    _, motion = LIMITS.limit(action, KINEMATICS.solve(ToolPose(0.6, 0.0, 0.05, 0.0)))
    assert motion.sent.displacement_m == pytest.approx((0.0, 0.0, -0.03))
    assert motion.sent.close_gripper
    assert motion.sent.terminate


def test_a_leap_back_into_the_workspace_is_refused():
    # 0.15 m outside the box, which is more than one action of 0.08 m can make up for.
    outside = KINEMATICS.solve(ToolPose(0.6, HIGH_Y + 0.15, 0.2, 0.0))
    with pytest.raises(OutOfReach, match=r"outside the workspace, and on the way back dy is -0\.1500 m"):
        LIMITS.limit(GraspAction(), outside)
    near = KINEMATICS.solve(ToolPose(0.6, HIGH_Y + 0.05, 0.2, 0.0))
    goal, motion = LIMITS.limit(GraspAction(), near)
    assert goal.y_m == pytest.approx(HIGH_Y)
    assert np.abs(motion.sent.displacement_m).max() == pytest.approx(0.05)
