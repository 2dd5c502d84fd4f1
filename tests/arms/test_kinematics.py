from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opc_ros.arms.kinematics import ARM_MODELS, Kinematics, ToolMount, ToolPose, find_arm_model
from opc_ros.errors import ConfigError, OutOfReach

R820 = ARM_MODELS["lbr_iiwa_14_r820"]
R800 = ARM_MODELS["lbr_iiwa_7_r800"]
MOUNT = ToolMount(x_m=0.01, y_m=-0.02, z_m=0.2, yaw_rad=0.3)

poses = st.builds(
    ToolPose,
    x_m=st.floats(0.45, 0.7),
    y_m=st.floats(-0.25, 0.25),
    z_m=st.floats(0.0, 0.35),
    yaw_rad=st.floats(-2.0, 2.0),
)


def test_limits_are_those_of_the_datasheets():
    # KUKA "LBR iiwa 7 R800, LBR iiwa 14 R820" specification, axis data, A1 to A7.
    for model in (R820, R800):
        assert model.largest_position_deg == (170, 120, 170, 120, 170, 120, 175)
    assert R820.largest_velocity_deg_s == (85, 85, 100, 75, 130, 135, 135)
    assert R800.largest_velocity_deg_s == (98, 98, 100, 130, 140, 180, 180)
    assert R820.largest_velocity_rad_s[3] == pytest.approx(1.3090, abs=1e-4)


def test_reach_is_that_of_the_datasheets():
    # Reach is from the shoulder to the wrist centre, 820 and 800 mm; upright the flange is at 1306 and 1266 mm.
    for model, reach_m, height_m in ((R820, 0.820, 1.306), (R800, 0.800, 1.266)):
        assert model.shoulder_to_elbow_m + model.elbow_to_wrist_m == pytest.approx(reach_m)
        rotation, position = Kinematics(model).locate_flange(np.zeros(7))
        assert position == pytest.approx([0.0, 0.0, height_m])
        assert rotation == pytest.approx(np.eye(3))


def test_forward_kinematics_agree_with_the_urdf_in_pybullet():
    pybullet = pytest.importorskip("pybullet")
    import pybullet_data

    client = pybullet.connect(pybullet.DIRECT)
    try:
        urdf = f"{pybullet_data.getDataPath()}/kuka_iiwa/model.urdf"
        arm = pybullet.loadURDF(urdf, useFixedBase=True, physicsClientId=client)
        rng = np.random.default_rng(0)
        for _ in range(50):
            joints = rng.uniform(-1.0, 1.0, 7) * R820.largest_position_rad
            for index, angle in enumerate(joints):
                pybullet.resetJointState(arm, index, angle, physicsClientId=client)
            state = pybullet.getLinkState(arm, 6, computeForwardKinematics=True, physicsClientId=client)
            urdf_rotation = np.reshape(pybullet.getMatrixFromQuaternion(state[5]), (3, 3))
            rotation, position = Kinematics(R820).locate_flange(joints)
            # The URDF's last link frame sits 81 mm beyond the wrist, the flange 126 mm.
            assert position == pytest.approx(np.array(state[4]) + 0.045 * urdf_rotation[:, 2], abs=1e-6)
            assert rotation == pytest.approx(urdf_rotation, abs=1e-6)
    finally:
        pybullet.disconnect(client)


def test_a_right_angled_elbow_has_the_pose_worked_on_paper():
    # Upper arm upright, elbow bent a right angle forward, wrist bent another: the hand hangs straight down.
    pose = Kinematics(R820, ToolMount(z_m=0.1)).locate_tool(np.radians([0, 0, 0, -90, 0, 90, 0]))
    assert (pose.x_m, pose.y_m, pose.z_m) == pytest.approx((0.400, 0.0, 0.360 + 0.420 - 0.126 - 0.1))
    assert (pose.yaw_rad, pose.tilt_rad) == pytest.approx((0.0, 0.0), abs=1e-7)


@settings(max_examples=200, deadline=None)
@given(pose=poses)
def test_the_inverse_undoes_the_forward(pose: ToolPose):
    arm = Kinematics(R820, MOUNT)
    found = arm.locate_tool(arm.solve(pose))
    assert (found.x_m, found.y_m, found.z_m) == pytest.approx((pose.x_m, pose.y_m, pose.z_m), abs=1e-9)
    assert math.remainder(found.yaw_rad - pose.yaw_rad, math.tau) == pytest.approx(0.0, abs=1e-9)
    assert found.tilt_rad == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(pose=poses, step=st.tuples(*[st.floats(-1e-3, 1e-3)] * 3), turn=st.floats(-0.01, 0.01))
def test_poses_a_millimetre_apart_have_joints_a_hundredth_apart(pose, step, turn):
    arm = Kinematics(R820, MOUNT)
    other = ToolPose(pose.x_m + step[0], pose.y_m + step[1], pose.z_m + step[2], pose.yaw_rad + turn)
    assert np.abs(arm.solve(other) - arm.solve(pose)).max() < 0.03


def test_a_pose_too_far_away_is_refused_with_the_distance():
    with pytest.raises(OutOfReach, match=r"tool at \(1\.200, 0\.000, 0\.200\).*allowed from 0\.020 to 0\.820"):
        Kinematics(R820).solve(ToolPose(1.2, 0.0, 0.2, 0.0))


def test_a_pose_on_the_first_axis_is_refused():
    with pytest.raises(OutOfReach, match="first joint's axis"):
        Kinematics(R820).solve(ToolPose(0.0, 0.0, 0.5, 0.0))


def test_a_yaw_beyond_the_last_joint_is_refused_with_the_angle():
    # Straight ahead the first joint is at 0, so the last is at minus the yaw.
    with pytest.raises(OutOfReach, match=r"joint 7 would be at -178\.0 deg, allowed \+-175"):
        Kinematics(R820).solve(ToolPose(0.55, 0.0, 0.3, math.radians(178)))


def test_a_pose_folded_too_tightly_is_refused():
    with pytest.raises(OutOfReach, match="joint 4 would be at"):
        Kinematics(R820).solve(ToolPose(0.25, 0.0, 0.25, 0.0))


def test_an_unknown_model_names_the_known_ones():
    with pytest.raises(ConfigError, match="lbr_iiwa_14_r820, lbr_iiwa_7_r800"):
        find_arm_model("ur5")


def test_the_inverse_takes_well_below_a_millisecond():
    arm = Kinematics(R820, MOUNT)
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        arm.solve(ToolPose(0.55, 0.1, 0.2, 0.4))
        best = min(best, time.perf_counter() - start)
    assert best < 1e-3
