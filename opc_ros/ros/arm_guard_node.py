"""A guard beside a real arm's driver, which knows neither stops nor heartbeats: it holds the arm in its stead."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from opc_interfaces.msg import RobotStatus, SafetyEvent
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.guard import Guard, GuardState
from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import plan_hold
from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.errors import ArmError
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import JointReading, reading_from_msg, trajectory_to_msg
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.stop_channel import SafetyReporter, StopChannel

CHECK_HZ = 50.0
HOLD_AGAIN_S = 0.2  # an arm that moves although it is held is held again, but not faster than it can obey
STATUS_S = 0.5

STATES = {
    GuardState.WAITING: RobotStatus.IDLE,
    GuardState.WATCHING: RobotStatus.RUNNING,
    GuardState.HOLDING: RobotStatus.HOLDING,
    GuardState.STOPPED: RobotStatus.STOPPED,
    GuardState.BLIND: RobotStatus.FAULT,
}


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Parameters of the guard."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    arm_config: str = described(
        "", "arm or lab file that says how the arm is reached; if given, it goes for the next three"
    )
    joint_names: tuple[str, str, str, str, str, str, str] = described(
        ("A1", "A2", "A3", "A4", "A5", "A6", "A7"), "as the driver calls them"
    )
    joint_states: str = described("joint_states", "where the driver tells them")
    controller: str = described("joint_trajectory_controller", "takes trajectories on <controller>/joint_trajectory")
    heartbeat_timeout_s: float = described(0.3, "without heartbeats the arm is held", low=0.05, high=60)
    measurement_timeout_s: float = described(0.5, "without joint states the guard is blind", low=0.02, high=60)
    hold_unheard: bool = described(True, "hold an arm that moves though no heartbeats are heard; false: only report it")
    rest_rad_s: float = described(0.02, "a joint slower than this is at rest", low=1e-4, high=0.5)


class ArmGuardNode(OpcNode[GuardSettings]):
    """Holds a real arm when its commander falls silent or a stop is told, from a process of its own."""

    NAME = "arm_guard"
    SETTINGS = GuardSettings
    IS_GUARDED = True

    def setup(self, settings: GuardSettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        arm = read_arm(settings, self._robot)
        self._joint_names = arm.joint_names
        self._switch = StopSwitch(self._robot)
        self._guard = Guard(
            self._switch,
            heartbeat_timeout_s=settings.heartbeat_timeout_s,
            measurement_timeout_s=settings.measurement_timeout_s,
            holds_unheard=settings.hold_unheard,
            now=time.monotonic,
        )
        self._reading: JointReading | None = None
        self._held_s = self._status_s = 0.0
        self._shown: GuardState | None = None
        self._commands = self.create_publisher(JointTrajectory, f"{arm.controller}/joint_trajectory", 10)
        self.held.callback(self.destroy_publisher, self._commands)
        self._reporter = SafetyReporter(self, self._robot)
        self.held.callback(self._reporter.close)
        self._statuses = self.create_publisher(RobotStatus, "~/status", topics.LATEST)
        self.held.callback(self.destroy_publisher, self._statuses)
        for kind, topic, callback, qos in (
            (JointState, arm.joint_states, self._on_joints, qos_profile_sensor_data),
            (Header, "heartbeat", self._on_heartbeat, 10),
        ):
            self.held.callback(self.destroy_subscription, self.create_subscription(kind, topic, callback, qos))

    def start(self) -> None:
        self._stop = StopChannel(self, self._switch, self._reporter, self._hold)
        self._timer = self.create_timer(1.0 / CHECK_HZ, self._on_timer)

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        self._stop.close()

    def _on_joints(self, msg: JointState) -> None:
        try:
            reading = reading_from_msg(msg, self._joint_names)
        except ArmError as error:
            self.get_logger().error(str(error), throttle_duration_sec=5.0)
            return
        if reading is not None:
            self._reading = reading
            self._guard.see(is_moving=self._is_moving())

    def _on_heartbeat(self, msg: Header) -> None:
        self._guard.hear(is_goodbye=not convert.stamp_to_ns(msg.stamp))

    def _on_timer(self) -> None:
        if line := self._guard.look():
            self._reporter.report(SafetyEvent.WATCHDOG, line)
            if self._guard.must_hold:
                self._hold()
        elif self._guard.must_hold and self._is_moving() and time.monotonic() - self._held_s > HOLD_AGAIN_S:
            self._hold()
        self._tell_state(time.monotonic())

    def _tell_state(self, now_s: float) -> None:
        state, reason = self._guard.explain()
        if state is self._shown and now_s - self._status_s < STATUS_S:
            return
        self._shown, self._status_s = state, now_s
        self._statuses.publish(
            RobotStatus(header=convert.header(self.now_ns()), robot=self._robot, state=STATES[state], reason=reason)
        )

    def _is_moving(self) -> bool:
        if self._reading is None or self._reading.velocities_rad_s is None:
            return False
        return bool(np.abs(self._reading.velocities_rad_s).max() > self._settings.rest_rad_s)

    def _hold(self) -> None:
        if self._reading is None:
            self.get_logger().error("cannot hold: no joint states have come yet")
            return
        self._held_s = time.monotonic()
        self._commands.publish(trajectory_to_msg(plan_hold(self._reading.positions_rad), self._joint_names))


def read_arm(settings: GuardSettings, robot: str) -> ArmSettings:
    """How the arm is reached: by its file where one is given, or else by the parameters."""
    if settings.arm_config:
        return load_arm(settings.arm_config, robot).with_full_names()
    return ArmSettings(
        joint_names=settings.joint_names, joint_states=settings.joint_states, controller=settings.controller
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ArmGuardNode, argv)


if __name__ == "__main__":
    sys.exit(main())
