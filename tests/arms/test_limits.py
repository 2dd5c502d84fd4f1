from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.limits import JointLimits, WorkspaceBox
from opc_ros.arms.model import load_arm_model

R820 = load_arm_model("opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf", "flange")
PANDA = load_arm_model("pybullet_data:franka_panda/panda.urdf", "panda_link8")
BOX = WorkspaceBox(low_m=(0.4, -0.2, 0.02), high_m=(0.7, 0.2, 0.5))


def test_a_position_outside_the_box_is_clamped_and_each_axis_named():
    position, lines = BOX.clamp((0.8, 0.0, 0.0))
    assert position == (0.7, 0.0, 0.02)
    assert lines == (
        "tool x is 0.8000 m, allowed from 0.4000 to 0.7000",
        "tool z is 0.0000 m, allowed from 0.0200 to 0.5000",
    )


def test_a_position_inside_the_box_stays():
    assert BOX.clamp((0.5, 0.1, 0.3)) == ((0.5, 0.1, 0.3), ())


def test_a_position_on_the_edge_is_put_inside_without_a_word_within_a_tenth_of_a_millimetre():
    assert BOX.clamp((0.5, 0.1, 0.01995)) == ((0.5, 0.1, 0.02), ())
    assert len(BOX.clamp((0.5, 0.1, 0.0198))[1]) == 1


def test_a_box_turned_inside_out_is_refused():
    with pytest.raises(ValueError, match=r"along y is from 0\.2 to 0\.2 m"):
        WorkspaceBox(low_m=(0.4, 0.2, 0.0), high_m=(0.7, 0.2, 0.5))


def test_joints_beyond_the_datasheet_less_the_margin_are_named():
    limits = JointLimits(R820, margin_deg=2.0)
    assert limits.position_violations(np.radians([0, 119, 0, -130, 0, 0, 174])) == (
        "joint 2 is +119.00 deg, allowed from -118.00 to +118.00",
        "joint 4 is -130.00 deg, allowed from -118.00 to +118.00",
        "joint 7 is +174.00 deg, allowed from -173.00 to +173.00",
    )


def test_a_range_that_is_not_the_same_either_way_is_kept():
    # The Panda's elbow only bends one way: its URDF has -3.1416 to 0 rad.
    limits = JointLimits(PANDA, margin_deg=2.0)
    assert limits.position_violations(np.array([0, 0, 0, -0.04, 0, 1.5, 0])) == ()
    assert limits.position_violations(np.array([0, 0, 0, 0.04, 0, 1.5, 0])) == (
        "joint 4 is +2.29 deg, allowed from -178.00 to -2.00",
    )


def test_a_margin_that_leaves_no_range_is_refused():
    with pytest.raises(ValueError, match="half the narrowest range"):
        JointLimits(PANDA, margin_deg=91.0)


def test_a_joint_that_is_not_a_number_is_a_violation():
    assert JointLimits(R820).position_violations(np.array([np.nan, 0, 0, 0, 0, 0, 0])) != ()


def test_a_step_that_is_too_fast_is_shortened_in_its_own_direction():
    # Joint 4 may turn at 75 deg/s: 0.75 deg in 10 ms, a third of the request; joint 1 is slowed down with it.
    joints, line = JointLimits(R820).clamp_step(np.zeros(7), np.radians([0.3, 0, 0, 2.25, 0, 0, 0]), 0.01)
    assert np.degrees(joints) == pytest.approx([0.1, 0, 0, 0.75, 0, 0, 0])
    assert line == "joint 4 would turn at 225.0 deg/s, allowed 75.0"


def test_half_speed_halves_every_velocity():
    assert np.degrees(JointLimits(R820, speed_fraction=0.5).velocity_rad_s) == pytest.approx(
        [42.5, 42.5, 50, 37.5, 65, 67.5, 67.5]
    )


@pytest.mark.parametrize("speed", [0.0, -0.1, 1.1])
def test_a_speed_beyond_the_datasheet_is_refused(speed):
    with pytest.raises(ValueError, match="speed fraction"):
        JointLimits(R820, speed_fraction=speed)
