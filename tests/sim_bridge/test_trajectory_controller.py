from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, plan_hold, plan_joints
from opc_ros.errors import OutOfReach
from sim_bridge.trajectory_controller import TrajectoryController

LIMITS = JointLimits(ArmSettings().load_model())
GOAL = np.radians([20.0, 10, 0, -30, 0, 15, 40])


def test_a_planned_trajectory_is_followed_to_its_goal_without_clamping():
    controller = TrajectoryController(LIMITS, np.zeros(7))
    trajectory = plan_joints(LIMITS, np.zeros(7), GOAL)
    controller.follow(trajectory)
    for _ in range(int(trajectory.duration_s / 0.01) + 2):
        controller.advance(0.01)
    assert controller.setpoint_rad == pytest.approx(GOAL)
    assert not controller.is_moving
    assert controller.take_clamped() == ()


def test_a_point_too_soon_is_reached_at_the_speed_limit_and_reported_once():
    # 42.5 deg on joint 1 at 85 deg/s takes half a second, however soon it is requested.
    controller = TrajectoryController(LIMITS, np.zeros(7))
    controller.follow(plan_hold(np.radians([42.5, 0, 0, 0, 0, 0, 0])))
    for _ in range(49):
        controller.advance(0.01)
    assert controller.is_moving
    assert np.degrees(controller.setpoint_rad[0]) == pytest.approx(0.85 * 49, abs=0.9)
    for _ in range(3):
        controller.advance(0.01)
    assert not controller.is_moving
    (line,) = controller.take_clamped()
    assert line.startswith("joint 1 would turn at")
    assert line.endswith("allowed 85.0")
    assert controller.take_clamped() == ()


def test_a_trajectory_beyond_a_limit_is_refused_whole_and_the_old_one_goes_on():
    controller = TrajectoryController(LIMITS, np.zeros(7))
    controller.follow(plan_joints(LIMITS, np.zeros(7), GOAL))
    beyond = np.zeros((2, 7))
    beyond[1, 3] = np.radians(121)
    with pytest.raises(
        OutOfReach, match=r"trajectory point 1: joint 4 is \+121\.00 deg, allowed from -120\.00 to \+120\.00"
    ):
        controller.follow(Trajectory(np.array([0.5, 1.0]), beyond, np.zeros((2, 7))))
    assert controller.is_moving
    for _ in range(500):
        controller.advance(0.01)
    assert controller.setpoint_rad == pytest.approx(GOAL)


def test_hold_stays_at_the_last_setpoint():
    controller = TrajectoryController(LIMITS, np.zeros(7))
    controller.follow(plan_joints(LIMITS, np.zeros(7), GOAL))
    for _ in range(20):
        controller.advance(0.01)
    held = controller.setpoint_rad.copy()
    assert controller.hold()
    assert not controller.hold()
    controller.advance(1.0)
    assert controller.setpoint_rad == pytest.approx(held)
    assert 0 < held[0] < GOAL[0]
