from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opc_ros.arms.kinematics import ToolMount, ToolPose
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, find_reachable, plan_hold, plan_joints, plan_line
from opc_ros.errors import OutOfReach

SETTINGS = ArmSettings(tool=ToolMount(z_m=0.2))
ARM = SETTINGS.kinematics()
LIMITS = JointLimits(
    SETTINGS.load_model(), speed_fraction=0.5, margin_deg=2.0, acceleration_rad_s2=4.0, jerk_rad_s3=40.0
)
START = ToolPose(0.55, 0.0, 0.3, 0.0)


def sample_densely(trajectory: Trajectory, step_s: float = 0.001) -> np.ndarray:
    times = np.arange(0.0, trajectory.duration_s + step_s, step_s)
    return np.stack([trajectory.sample(float(t)) for t in times])


@settings(max_examples=60, deadline=None)
@given(x=st.floats(0.42, 0.68), y=st.floats(-0.2, 0.2), z=st.floats(0.05, 0.35), yaw=st.floats(-1.5, 1.5))
def test_a_line_keeps_speed_and_acceleration_and_arrives(x, y, z, yaw):
    goal = ToolPose(x, y, z, yaw)
    trajectory = plan_line(ARM, LIMITS, ARM.solve(START), goal, tool_speed_m_s=0.5)
    path = sample_densely(trajectory)
    speed = np.abs(np.diff(path, axis=0)) / 0.001
    assert (speed.max(axis=0) <= LIMITS.velocity_rad_s * 1.01).all()
    assert np.abs(np.diff(trajectory.velocities_rad_s, axis=0)).max() / trajectory.times_s[1] <= 4.0 * 1.01
    assert path[0] == pytest.approx(ARM.solve(START))
    assert path[-1] == pytest.approx(ARM.solve(goal))


def test_the_tool_stays_on_the_straight_line_and_below_its_speed():
    trajectory = plan_line(ARM, LIMITS, ARM.solve(START), ToolPose(0.63, 0.08, 0.22, 0.6), tool_speed_m_s=0.1)
    tools = [ARM.locate_tool(joints) for joints in sample_densely(trajectory, 0.01)]
    for tool in tools:
        share = (tool.x_m - 0.55) / 0.08
        assert tool.y_m == pytest.approx(0.08 * share, abs=2e-4)
        assert tool.z_m == pytest.approx(0.3 - 0.08 * share, abs=2e-4)
        assert tool.tilt_rad < 1e-3
    steps = [math.dist((a.x_m, a.y_m, a.z_m), (b.x_m, b.y_m, b.z_m)) for a, b in pairwise(tools)]
    assert max(steps) / 0.01 <= 0.1 * 1.01


def test_a_line_begins_where_the_arm_is_even_if_the_inverse_is_elsewhere():
    measured = ARM.solve(START) + np.array([0, 0, 0.02, 0, -0.01, 0, 0])
    trajectory = plan_line(ARM, LIMITS, measured, ToolPose(0.6, 0.0, 0.3, 0.0), tool_speed_m_s=0.5)
    assert trajectory.positions_rad[0] == pytest.approx(measured)
    assert trajectory.goal_rad == pytest.approx(ARM.solve(ToolPose(0.6, 0.0, 0.3, 0.0)))


def test_joints_turn_together_within_the_speed_of_the_slowest():
    # 90 deg on joint 4 at 37.5 deg/s are 2.4 s; reaching that speed with 4 rad/s^2 costs v/a + a/j = 0.1636 + 0.1 s.
    goal = np.radians([10.0, 0, 0, -90.0, 0, 0, 0])
    trajectory = plan_joints(LIMITS, np.zeros(7), goal)
    assert trajectory.duration_s == pytest.approx(2.6636, rel=0.01)
    halfway = trajectory.sample(trajectory.duration_s / 2)
    assert halfway == pytest.approx(goal / 2, abs=1e-3)


def test_a_path_is_cut_short_at_a_joint_limit_and_says_why():
    # Straight ahead the last joint is at minus the yaw and may go to 173 deg; from 130 to 180 that is 43 of 50 deg.
    start = ARM.solve(ToolPose(0.55, 0.0, 0.3, math.radians(130)))
    pose, share, lines = find_reachable(ARM, LIMITS, start, ToolPose(0.55, 0.0, 0.3, math.radians(180)))
    assert 40 / 50 < share <= 43 / 50
    assert math.degrees(pose.yaw_rad) == pytest.approx(130 + 50 * share)
    assert lines[0].startswith("joint 7 is -173.")
    assert "of the way" in lines[0]


def test_a_path_within_all_limits_is_not_shortened():
    goal = ToolPose(0.6, 0.1, 0.2, 0.3)
    assert find_reachable(ARM, LIMITS, ARM.solve(START), goal) == (goal, 1.0, ())


def test_a_hold_is_one_point_at_rest():
    hold = plan_hold(np.arange(7.0))
    assert hold.duration_s < 0.05
    assert hold.sample(0.0) == pytest.approx(np.arange(7.0))
    assert not hold.velocities_rad_s.any()


def test_a_cubic_piece_has_the_middle_worked_on_paper():
    # From 0 at rest to 1 in 2 s arriving at 1 rad/s: x(1) = 1/2 - 1 * 2 / 8.
    velocities = np.zeros((2, 7))
    velocities[1] = 1.0
    piece = Trajectory(np.array([0.0, 2.0]), np.stack([np.zeros(7), np.ones(7)]), velocities)
    assert piece.sample(1.0) == pytest.approx(np.full(7, 0.25))


def test_a_swing_between_two_points_is_found_where_it_is_furthest_and_fastest():
    # Leaves 0 at 1 rad/s and is back at rest after 4 s: 4 (u - 2 u^2 + u^3) is 16/27 at u = 1/3.
    velocities = np.zeros((2, 7))
    velocities[0] = 1.0
    swing = Trajectory(np.array([0.0, 4.0]), np.zeros((2, 7)), velocities)
    assert swing.furthest_rad().max() == pytest.approx(16 / 27)
    assert swing.fastest_rad_s() == pytest.approx(np.ones(7))
    # From rest to rest, 1 rad in 1 s: the speed in the middle is 1.5 times the average.
    rest = Trajectory(np.array([0.0, 1.0]), np.stack([np.zeros(7), np.ones(7)]), np.zeros((2, 7)))
    assert rest.fastest_rad_s() == pytest.approx(np.full(7, 1.5))
    assert rest.furthest_rad().max() == pytest.approx(1.0)


@settings(max_examples=100, deadline=None)
@given(
    path=st.lists(st.floats(-3, 3), min_size=3, max_size=3), speeds=st.lists(st.floats(-3, 3), min_size=3, max_size=3)
)
def test_no_sample_lies_beyond_what_is_called_furthest_and_fastest(path, speeds):
    column = [np.array(each)[:, np.newaxis] for each in (path, speeds)]
    trajectory = Trajectory(np.array([0.0, 0.7, 2.0]), *column)
    sampled = sample_densely(trajectory)
    furthest = trajectory.furthest_rad()
    assert furthest.min() - 1e-6 <= sampled.min()
    assert sampled.max() <= furthest.max() + 1e-6
    assert furthest.max() <= sampled.max() + 1e-3
    assert np.abs(np.diff(sampled[:, 0])).max() / 0.001 <= trajectory.fastest_rad_s()[0] + 1e-2


@pytest.mark.parametrize(
    ("times", "positions", "complaint"),
    [
        ([0.0, 0.0], np.zeros((2, 7)), "do not rise"),
        ([-1.0], np.zeros((1, 7)), "none before the start"),
        ([], np.zeros((0, 7)), "at least one point"),
        ([1.0], np.zeros((1, 6)), r"velocities have shape \(1, 7\), expected \(1, 6\)"),
        ([1.0], np.full((1, 7), np.nan), "not all finite"),
    ],
)
def test_a_trajectory_that_is_not_whole_is_refused(times, positions, complaint):
    with pytest.raises(OutOfReach, match=complaint):
        Trajectory(np.array(times), positions, np.zeros((len(times), 7)))
