"""An arm that leans on something and trembles: a driver that never comes to rest."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")

from opc_ros.errors import ArmError
from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.ros.restless_driver import LEANING, RestlessDriver

pytestmark = pytest.mark.ros
HASTY = dataclasses.replace(LEANING, motion=dataclasses.replace(LEANING.motion, patience=1.0))


@pytest.fixture
def driver() -> Iterator[RestlessDriver]:
    with own_domain():
        driver = RestlessDriver()
        yield driver
        driver.close()


def test_an_arm_that_trembles_short_of_its_goal_is_held_and_the_episode_goes_on(driver: RestlessDriver) -> None:
    arm = RosArm(LEANING)
    arm.begin(seed=0)
    # 5 degrees short, trembling to either side of that, five times a second.
    driver.unrest = lambda seconds: math.radians(5.0 + math.sin(10.0 * math.pi * seconds))
    sent = len(driver.sent)
    motion = arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
    assert motion.clamped == ()
    driver.wait_for_commands(sent + 2)
    goal, held = driver.sent[sent:]
    assert math.radians(3.9) < held[5] - goal[5] < math.radians(6.1)
    arm.close()


def test_an_arm_that_creeps_on_is_held_once_patience_ends(driver: RestlessDriver) -> None:
    arm = RosArm(HASTY)
    arm.begin(seed=0)
    began = time.monotonic()
    driver.unrest = lambda seconds: math.radians(5.0 + 0.5 * (seconds - began))
    sent = len(driver.sent)
    arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
    driver.wait_for_commands(sent + 2)
    arm.close()


def test_an_arm_that_drifts_away_breaks_the_episode_off(driver: RestlessDriver) -> None:
    arm = RosArm(HASTY)
    arm.begin(seed=0)
    began = time.monotonic()
    driver.unrest = lambda seconds: math.radians(5.0 + 10.0 * (seconds - began))
    with pytest.raises(ArmError, match=r"joint 6 stopped .* deg short of its goal"):
        arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
    arm.close()
