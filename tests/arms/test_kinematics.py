from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pybullet
import pybullet_data
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opc_ros.arms.kinematics import Kinematics, ToolMount, ToolPose
from opc_ros.arms.model import ArmModel, load_arm_model
from opc_ros.arms.settings import ArmSettings
from opc_ros.config import load_config
from opc_ros.errors import ConfigError, OutOfReach

CONFIG = Path(__file__).resolve().parents[2] / "config"
R820 = load_arm_model("opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf", "flange")
R800 = load_arm_model("opc_ros:arms/urdf/lbr_iiwa_7_r800.urdf", "flange")
MOUNT = ToolMount(x_m=0.01, y_m=-0.02, z_m=0.2, yaw_rad=0.3)
POSTURE_RAD = np.radians([0, 35, 0, -85, 0, 60, 0])
ARMS = {
    "lbr": Kinematics(R820, MOUNT, posture_rad=POSTURE_RAD, held=[2]),
    "panda": load_config(CONFIG / "arm_panda_twin.yaml", ArmSettings).kinematics(),
}

poses = st.builds(
    ToolPose,
    x_m=st.floats(0.45, 0.7),
    y_m=st.floats(-0.15, 0.15),
    z_m=st.floats(0.02, 0.3),
    yaw_rad=st.floats(-1.6, 1.6),
)


def lbr(model: ArmModel = R820, mount: ToolMount | None = None) -> Kinematics:
    return Kinematics(model, mount, posture_rad=POSTURE_RAD, held=[2])


def test_limits_are_those_of_the_datasheets():
    # KUKA "LBR iiwa 7 R800, LBR iiwa 14 R820" specification, axis data, A1 to A7.
    for model in (R820, R800):
        assert np.degrees(model.upper_rad) == pytest.approx([170, 120, 170, 120, 170, 120, 175])
        assert np.array_equal(model.lower_rad, -model.upper_rad)
    assert np.degrees(R820.velocity_rad_s) == pytest.approx([85, 85, 100, 75, 130, 135, 135])
    assert np.degrees(R800.velocity_rad_s) == pytest.approx([98, 98, 100, 130, 140, 180, 180])
    assert R820.effort_nm.tolist() == [320, 320, 176, 176, 110, 40, 40]
    assert R800.effort_nm.tolist() == [176, 176, 110, 110, 110, 40, 40]


def test_reach_is_that_of_the_datasheets():
    # Reach is from the shoulder to the wrist centre, 820 and 800 mm; upright, the flange is at 1306 and 1266 mm.
    for model, reach_m, height_m in ((R820, 0.820, 1.306), (R800, 0.800, 1.266)):
        rotation, position = lbr(model).locate_flange(np.zeros(7))
        assert position == pytest.approx([0.0, 0.0, height_m])
        assert rotation == pytest.approx(np.eye(3))
        _, stretched = lbr(model).locate_flange(np.radians([0, 90, 0, 0, 0, 0, 0]))
        assert stretched[0] - 0.126 == pytest.approx(reach_m)


@pytest.mark.parametrize(
    ("arm", "urdf", "link", "to_flange_m"),
    [("lbr", "kuka_iiwa/model.urdf", 6, 0.045), ("panda", "franka_panda/panda.urdf", 7, 0.0)],
)
def test_forward_kinematics_agree_with_pybullets(arm: str, urdf: str, link: int, to_flange_m: float):
    # The LBR's link frame in that file is 81 mm beyond the wrist, the flange 126 mm.
    kinematics = ARMS[arm]
    client = pybullet.connect(pybullet.DIRECT)
    try:
        body = pybullet.loadURDF(f"{pybullet_data.getDataPath()}/{urdf}", useFixedBase=True, physicsClientId=client)
        rng = np.random.default_rng(0)
        for _ in range(50):
            joints = rng.uniform(kinematics.model.lower_rad, kinematics.model.upper_rad)
            for index, angle in enumerate(joints):
                pybullet.resetJointState(body, index, angle, physicsClientId=client)
            state = pybullet.getLinkState(body, link, computeForwardKinematics=True, physicsClientId=client)
            rotation_there = np.reshape(pybullet.getMatrixFromQuaternion(state[5]), (3, 3))
            rotation, position = kinematics.locate_flange(joints)
            assert position == pytest.approx(np.array(state[4]) + to_flange_m * rotation_there[:, 2], abs=1e-6)
            assert rotation == pytest.approx(rotation_there, abs=1e-6)
    finally:
        pybullet.disconnect(client)


def test_a_right_angled_elbow_has_the_pose_worked_on_paper():
    # Upper arm upright, elbow bent forward by a right angle, wrist by another: the hand hangs straight down.
    pose = lbr(mount=ToolMount(z_m=0.1)).locate_tool(np.radians([0, 0, 0, -90, 0, 90, 0]))
    assert (pose.x_m, pose.y_m, pose.z_m) == pytest.approx((0.400, 0.0, 0.360 + 0.420 - 0.126 - 0.1))
    assert (pose.yaw_rad, pose.tilt_rad) == pytest.approx((0.0, 0.0), abs=1e-7)


@settings(max_examples=100, deadline=None)
@given(pose=poses, name=st.sampled_from(sorted(ARMS)))
def test_the_inverse_undoes_the_forward(pose: ToolPose, name: str):
    arm = ARMS[name]
    found = arm.locate_tool(arm.solve(pose))
    assert (found.x_m, found.y_m, found.z_m) == pytest.approx((pose.x_m, pose.y_m, pose.z_m), abs=1e-9)
    assert math.remainder(found.yaw_rad - pose.yaw_rad, math.tau) == pytest.approx(0.0, abs=1e-9)
    assert found.tilt_rad == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    pose=poses,
    step=st.tuples(*[st.floats(-1e-3, 1e-3)] * 3),
    turn=st.floats(-0.01, 0.01),
    name=st.sampled_from(sorted(ARMS)),
)
def test_poses_a_millimetre_apart_have_joints_a_hundredth_apart(pose, step, turn, name):
    arm = ARMS[name]
    other = ToolPose(pose.x_m + step[0], pose.y_m + step[1], pose.z_m + step[2], pose.yaw_rad + turn)
    assert np.abs(arm.solve(other) - arm.solve(pose)).max() < 0.04


@settings(max_examples=100, deadline=None)
@given(
    x=st.floats(0.45, 0.75),
    y=st.floats(-0.15, 0.15),
    z=st.floats(0.02, 0.34),
    yaw=st.floats(-2.5, 2.5),
)
def test_the_lbrs_inverse_is_the_triangle_of_shoulder_elbow_and_wrist(x, y, z, yaw):
    # In closed form, with the third and fifth joint at zero and the elbow up.
    out, up = math.hypot(x, y), z + 0.145 + 0.126 - 0.36
    distance = math.hypot(out, up)
    fourth = math.acos((0.42**2 + 0.40**2 - distance**2) / (2 * 0.42 * 0.40)) - math.pi
    second = math.atan2(out, up) - math.acos((0.42**2 + distance**2 - 0.40**2) / (2 * 0.42 * distance))
    first = math.atan2(y, x)
    expected = [first, second, 0.0, fourth, 0.0, math.pi - second + fourth, first - yaw]
    assert ArmSettings().kinematics().solve(ToolPose(x, y, z, yaw)) == pytest.approx(expected, abs=1e-9)


def test_a_pose_too_far_away_is_refused():
    with pytest.raises(OutOfReach, match=r"tool at \(1\.200, 0\.000, 0\.200\).*lbr_iiwa_14_r820 does not reach there"):
        lbr().solve(ToolPose(1.2, 0.0, 0.2, 0.0))


def test_a_pose_on_the_first_axis_is_refused():
    with pytest.raises(OutOfReach):
        lbr().solve(ToolPose(0.0, 0.0, 0.5, 0.0))


def test_a_yaw_beyond_the_last_joint_is_refused_with_the_angle():
    # Straight ahead the first joint is at 0, so the last is at minus the yaw.
    with pytest.raises(OutOfReach, match=r"joint 7 would be at -178\.0 deg, allowed from -175 to \+175"):
        lbr().solve(ToolPose(0.55, 0.0, 0.3, math.radians(178)))


def test_a_pose_folded_too_tightly_is_refused():
    with pytest.raises(OutOfReach, match="joint 4 would be at"):
        lbr().solve(ToolPose(0.25, 0.0, 0.25, 0.0))


def test_a_file_or_link_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"urdf 'opc_ros:arms/ur5\.urdf': no file"):
        load_arm_model("opc_ros:arms/ur5.urdf", "flange")
    with pytest.raises(ConfigError, match="no Python package 'nowhere'"):
        load_arm_model("nowhere:ur5.urdf", "flange")
    with pytest.raises(ConfigError, match=r"no link 'hand' to be the flange, expected one of link_0, .*flange"):
        load_arm_model("opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf", "hand")
    (tmp_path / "arm.urdf").write_text("<robot")
    with pytest.raises(ConfigError, match=r"arm\.urdf: not XML"):
        load_arm_model(str(tmp_path / "arm.urdf"), "flange")


def test_an_arm_of_four_joints_whose_tool_always_points_down_is_solved_too(tmp_path):
    # A SCARA: two links of 0.4 and 0.3 m, a slide and a rotation. At (0.4, 0.3) its elbow is at a right angle.
    joints = (
        ("one", "revolute", "0 0 0.5", "0 0 1", 3.0),
        ("two", "revolute", "0.4 0 0", "0 0 1", 3.0),
        ("slide", "prismatic", "0.3 0 0", "0 0 -1", 0.4),
        ("turn", "continuous", "0 0 0", "0 0 1", 3.0),
    )
    rows = ['<robot name="scara"><link name="l0"/>']
    for index, (name, kind, xyz, axis, reach) in enumerate(joints):
        rows.append(
            f'<joint name="{name}" type="{kind}"><parent link="l{index}"/><child link="l{index + 1}"/>'
            f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>'
            f'<limit lower="{-reach}" upper="{reach}" velocity="1" effort="50"/></joint><link name="l{index + 1}"/>'
        )
    rows.append(
        '<joint name="down" type="fixed"><parent link="l4"/><child link="flange"/>'
        f'<origin rpy="{math.pi} 0 {math.pi}"/></joint><link name="flange"/></robot>'
    )
    (tmp_path / "scara.urdf").write_text("".join(rows))
    arm = Kinematics(load_arm_model(str(tmp_path / "scara.urdf"), "flange"), posture_rad=[0.1, 1.0, 0.1, 0.0])
    assert arm.model.upper_rad[3] == pytest.approx(2 * math.pi)
    joints_rad = arm.solve(ToolPose(0.4, 0.3, 0.3, 0.2))
    assert joints_rad[:3] == pytest.approx([0.0, math.pi / 2, 0.2], abs=1e-6)
    assert arm.locate_tool(joints_rad).yaw_rad == pytest.approx(0.2)


def test_the_inverse_takes_well_below_a_millisecond():
    arm = ARMS["lbr"]
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        arm.solve(ToolPose(0.55, 0.1, 0.2, 0.4))
        best = min(best, time.perf_counter() - start)
    assert best < 1e-3
