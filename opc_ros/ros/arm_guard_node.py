"""A guard beside a real arm's driver: the driver knows neither stops nor heartbeats, so the guard holds the arm."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_interfaces.msg import RobotStatus, SafetyEvent
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.guard import Guard, GuardState
from opc_ros.arms.joint_watch import JointWatch
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.stop_memory import StopMemory
from opc_ros.arms.trajectory import plan_hold
from opc_ros.bringup.lab import load_arm
from opc_ros.config import described
from opc_ros.errors import ArmError
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import reading_from_msg, trajectory_to_msg
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.precedence import Precedence
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import SafetyReporter, StopChannel

CHECK_HZ = 50.0
HOLD_AGAIN_S = 0.2  # hold again an arm that still moves, but no faster than it can react
STATUS_S = 0.05  # a commander moves the arm only if it has heard this within the last third of a second
COUNT_S = 0.5
SAY_WAITING_S = 3.0  # a driver that is running has been discovered by then
MOST_DOUBTS = 3  # implausible readings in a row before the guard reports a fault

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
        "", "arm or lab file that says how the arm is reached; if given, it replaces the next three"
    )
    joint_names: tuple[str, str, str, str, str, str, str] = described(
        ("A1", "A2", "A3", "A4", "A5", "A6", "A7"), "as the driver calls them"
    )
    joint_states: str = described("joint_states", "topic on which the driver publishes them")
    controller: str = described("joint_trajectory_controller", "takes trajectories on <controller>/joint_trajectory")
    heartbeat_timeout_s: float = described(0.3, "the arm is held after this long without heartbeats", low=0.05, high=60)
    measurement_timeout_s: float = described(
        0.5, "without joint states for this long the guard cannot hold the arm", low=0.02, high=60
    )
    hold_unheard: bool = described(True, "hold an arm that moves although no heartbeats arrive; false: only report it")
    rest_rad_s: float = described(0.02, "a joint slower than this is at rest", low=1e-4, high=0.5)
    state: str = described("", "folder in which a stop is kept until it is released; empty: it ends with this node")
    keys: str = described("", "folder with the people whose signed releases lift a stop; empty: nobody's do")
    hold_age_s: float = described(
        0.1, "hold the arm at a measured position only if the measurement is at most this old, in seconds", low=0.01
    )
    stamp_tolerance_s: float = described(1.0, "joint states with an older timestamp are ignored", low=0.01)


class ArmGuardNode(OpcNode[GuardSettings]):
    """Holds a real arm when its commander falls silent or a stop arrives, from a separate process."""

    NAME = "arm_guard"
    SETTINGS = GuardSettings
    IS_GUARDED = True
    PRECEDENCE = Precedence.REAL_TIME

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
        self._joints = JointWatch(
            JointLimits(arm.load_model()),
            rest_rad_s=settings.rest_rad_s,
            oldest_s=settings.stamp_tolerance_s,
            now=time.monotonic,
        )
        self._joint_topic = arm.joint_states
        self._doubts, self._doubted = 0, ""
        self._owes_hold = False
        self._held_s = self._status_s = self._counted_s = 0.0
        self._rivals = 0
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
        memory = StopMemory(Path(self._settings.state)) if self._settings.state else None
        self._stop = StopChannel(self, self._switch, self._reporter, self._hold, self._settings.keys, memory)
        self._started_s = time.monotonic()
        self._timer = create_steady_timer(self, 1.0 / CHECK_HZ, self._on_timer)

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        self._stop.close()

    def _on_joints(self, msg: JointState) -> None:
        try:
            reading = reading_from_msg(msg, self._joint_names)
        except ArmError as error:
            self._doubt(str(error))
            return
        if reading is None:
            return
        age_s = (self.now_ns() - reading.stamp_ns) * 1e-9
        if self._joints.see(reading.positions_rad, reading.velocities_rad_s, age_s):
            self._doubts = 0
            self._guard.see(is_moving=self._joints.is_moving)
        else:
            self._doubt(f"joint states: {self._joints.doubt}")

    def _doubt(self, why: str) -> None:
        self._doubts += 1
        self._doubted = why
        self.get_logger().warning(f"not believed: {why}", throttle_duration_sec=1.0)

    def _on_heartbeat(self, msg: Header) -> None:
        self._guard.hear(is_goodbye=not convert.stamp_to_ns(msg.stamp))

    def _on_timer(self) -> None:
        now_s = time.monotonic()
        self._look_for_rivals(now_s)
        if line := self._guard.look():
            self._reporter.report(SafetyEvent.WATCHDOG, line)
            self._owes_hold = self._guard.must_hold
        if self._guard.must_hold:
            is_due = now_s - self._held_s > HOLD_AGAIN_S and self._joints.is_moving
            if self._owes_hold or is_due:
                self._hold()
        self._tell_state(now_s)

    def _look_for_rivals(self, now_s: float) -> None:
        """With two publishers of joint states, neither can be believed; a single stray message is not a problem yet."""
        if now_s - self._counted_s > COUNT_S:
            self._counted_s, self._rivals = now_s, self.count_publishers(self._joint_topic)
            if not self._rivals and now_s - self._started_s > SAY_WAITING_S:
                topic = self.resolve_topic_name(self._joint_topic)
                self.get_logger().warning(
                    f"waiting for the arm's driver: nobody publishes {topic}", throttle_duration_sec=30.0
                )
        trouble = self._doubted if self._doubts >= MOST_DOUBTS else ""
        if self._rivals > 1:
            trouble = f"{self._rivals} publishers of {self._joint_topic}, expected one"
        self._guard.doubt(trouble)

    def _tell_state(self, now_s: float) -> None:
        state, reason = self._guard.explain()
        if state is self._shown and now_s - self._status_s < STATUS_S:
            return
        self._shown, self._status_s = state, now_s
        self._statuses.publish(
            RobotStatus(header=convert.header(self.now_ns()), robot=self._robot, state=STATES[state], reason=reason)
        )

    def _hold(self) -> None:
        """Hold the arm where it is; sends nothing without a fresh, plausible position: a hold must not move it."""
        here = self._joints.holdable(self._settings.hold_age_s)
        self._owes_hold = here is None
        if here is None:
            self.get_logger().error("cannot hold: no fresh and plausible joint states", throttle_duration_sec=1.0)
            return
        self._held_s = time.monotonic()
        self._commands.publish(trajectory_to_msg(plan_hold(here), self._joint_names))


def read_arm(settings: GuardSettings, robot: str) -> ArmSettings:
    """How to reach the arm: from its file if one is given, otherwise from the parameters."""
    if settings.arm_config:
        return load_arm(settings.arm_config, robot).with_full_names()
    return ArmSettings(
        joint_names=settings.joint_names, joint_states=settings.joint_states, controller=settings.controller
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ArmGuardNode, argv)


if __name__ == "__main__":
    sys.exit(main())
