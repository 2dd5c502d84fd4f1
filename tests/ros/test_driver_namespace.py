"""A driver in a namespace of its own: stops and events stay where people look for them, in the robot's namespace."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import SafetyEvent
from std_msgs.msg import Bool

from opc_ros.errors import ArmStopped
from opc_ros.grasp import GraspAction
from opc_ros.ros import topics
from opc_ros.ros.ros_arm import RosArm
from tests.domains import own_domain
from tests.ros.restless_driver import LEANING, RestlessDriver
from tests.ros.twin_rig import Watcher

pytestmark = pytest.mark.ros


def test_the_robots_own_stop_holds_an_arm_whose_driver_is_elsewhere() -> None:
    with own_domain():
        driver, watcher = RestlessDriver("lbr"), Watcher()
        arm = RosArm(dataclasses.replace(LEANING, namespace="lbr"))
        try:
            arm.begin(seed=0)
            arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.05)))
            sent = len(driver.sent)
            watcher.node.create_publisher(Bool, "stop", topics.LATEST).publish(Bool(data=True))
            assert watcher.wait_for_event(SafetyEvent.STOP).robot == LEANING.robot
            driver.wait_for_commands(sent + 1)
            with pytest.raises(ArmStopped):
                arm.apply(GraspAction(displacement_m=(0.0, 0.0, 0.05)))
        finally:
            arm.close()
            watcher.close()
            driver.close()
