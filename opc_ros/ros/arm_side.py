"""The gateway's node in the arm's own ROS domain: commands driver and gripper, subscribes to guard and joints."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.limits import JointLimits
from opc_ros.arms.measured_time import MeasuredTime
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory
from opc_ros.bringup.lab_names import in_lab
from opc_ros.bringup.reach import PEERS, RANGE, is_kept_here
from opc_ros.deployment.arm_lease import ArmLease
from opc_ros.errors import ArmError, ArmLost, OpcError, OutOfReach
from opc_ros.ros.arm_way import DirectWay
from opc_ros.ros.guard_word import GuardWord
from opc_ros.ros.hold_sender import HoldSender
from opc_ros.ros.joint_messages import JointReading, reading_from_msg, trajectory_from_msg, trajectory_to_msg
from opc_ros.ros.node_health import NodeHealth, spin_until_closed

SPEED_SLACK = 1.02  # for rounding of planned speeds
HOLD_RAD = 0.02  # a trajectory that goes no further than this counts as a hold, even of a moving arm
# From the measured position to a trajectory's start; what is spent comes back at the lease's speed.
NEAR_RAD = 0.1


class ArmSide:
    """A node in the arm's domain, with its own spinning thread."""

    def __init__(
        self,
        settings: ArmSettings,
        domain: int,
        discovery: str,
        *,
        why_not_now: Callable[[], str],
        complain: Callable[[str], None],
    ) -> None:
        """`why_not_now` is asked before every trajectory; `complain` is called for goals that a controller rejects."""
        self._settings, self._why_not_now = settings, why_not_now
        self._limits = settings.joint_limits()
        self._reading: JointReading | None = None
        self._read_s = self._measured_s = 0.0
        self._times = MeasuredTime()
        self._start_slack = StartSlack(len(settings.joint_names))
        self._context = Context()
        with _discovery_range(discovery):
            rclpy.init(args=[], context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(
            "arm_gateway",
            namespace=in_lab(settings.robot),
            context=self._context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._way = DirectWay(self.node, settings, complain)
        self._guard = GuardWord(self.node, settings.guard, settings.guard_timeout_s, lambda: self._holds.hear_guard())
        self._holds = HoldSender(settings, self._guard, self._newest, self._command)
        self.node.create_subscription(JointState, settings.joint_states, self._on_joints, qos_profile_sensor_data)
        self._is_closing = threading.Event()
        self._executor = SingleThreadedExecutor(context=self._context)

    def spin(self) -> None:
        """Start spinning, once all subscriptions exist."""
        self._executor.add_node(self.node)
        health = NodeHealth(self.node)
        target = partial(spin_until_closed, self._executor, health, self._is_closing)
        self._thread = threading.Thread(target=target, name="arm's domain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(timeout=2.0)
        self._way.close()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def follow(self, cdr: bytes, lease: ArmLease) -> None:
        """Check a trajectory once more on the arm's side, and forward only what was checked.

        The driver gets joint angles, speeds and times, and starts at once: with a timestamp in the past it would skip
        the slow beginning, and accelerations would change the path between the points.
        """
        try:
            msg = deserialize_message(cdr, JointTrajectory)
        except Exception as error:
            raise OutOfReach(f"a trajectory that cannot be read: {error}") from error
        trajectory = trajectory_from_msg(msg, self._settings.joint_names)
        here_rad = self._measured()
        if here_rad is None:
            raise ArmLost(f"nothing is measured on {self._settings.joint_states}")
        try:
            self._refuse(trajectory, here_rad, lease)
        except OpcError:
            if not asks_to_stay(trajectory, here_rad):
                raise
            # Holding is always allowed, where the gateway sees the arm, so that repeated holds cannot move it.
            self.hold()
            return
        self._command(trajectory)
        self._holds.note(trajectory)

    def _refuse(self, trajectory: Trajectory, here_rad: np.ndarray, lease: ArmLease) -> None:
        """Raise if the trajectory must not pass now."""
        refuse_beyond(trajectory, here_rad, self._limits, lease)
        if reason := self._why_not_now():
            raise ArmLost(reason)
        if not self._guard.allows_motion:
            raise ArmLost(self._guard.complaint)
        if trajectory.times_s[0] <= 0.0:
            off_rad = np.abs(trajectory.positions_rad[0] - here_rad)
            self._start_slack.spend(off_rad, allowed_rad_s(self._limits, lease), time.monotonic())

    def grip(self, aperture_m: float) -> None:
        gripper = self._settings.gripper
        if not gripper.closed_m <= aperture_m <= gripper.open_m:
            raise OutOfReach(f"gripper opening {aperture_m} m, allowed from {gripper.closed_m} to {gripper.open_m}")
        self._way.grip(aperture_m)

    def beat(self) -> None:
        self._holds.stay_awake()
        self._way.begin()
        self._way.beat()

    def lay_out(self, seed: int, timeout_s: float) -> None:
        if not self._settings.lay_out:
            raise ArmError(f"arm {self._settings.robot}: its bin is filled by people")
        self._way.lay_out(seed, timeout_s)

    def say_goodbye(self) -> None:
        self._way.rest()

    def hold(self) -> None:
        """Hold the arm where it is; if its position is unknown, leave that to the guard."""
        self._holds.hold()

    def _command(self, trajectory: Trajectory) -> None:
        self._way.send(trajectory_to_msg(trajectory, self._settings.joint_names))

    def _newest(self) -> tuple[float, JointReading] | None:
        return None if self._reading is None else (self._measured_s, self._reading)

    def count_rivals(self) -> int:
        """Number of publishers of joint states in the arm's own domain."""
        return int(self.node.count_publishers(self._settings.joint_states))

    def _measured(self) -> np.ndarray | None:
        """Joint angles (J,), if measured recently."""
        reading = self._reading
        is_fresh = time.monotonic() - self._read_s < self._settings.measurement_timeout_s
        return reading.positions_rad if reading is not None and is_fresh else None

    def _on_joints(self, msg: JointState) -> None:
        try:
            reading = reading_from_msg(msg, self._settings.joint_names)
        except ArmError:
            return  # the guard reports what is wrong with it
        if reading is not None:
            self._reading, self._read_s = reading, time.monotonic()
            self._measured_s = self._times.tell(self._read_s, reading.stamp_ns)
            self._holds.hear_joints()


class StartSlack:
    """Limits how far from the arm recent trajectories may start; many small offsets would add up to a jump."""

    def __init__(self, joints: int) -> None:
        self._spent_rad = np.zeros(joints)
        self._at_s = 0.0

    def spend(self, off_rad: np.ndarray, speed_rad_s: np.ndarray, now_s: float) -> None:
        """Spend some of the slack; raises OutOfReach once it is used up. It refills at the joints' allowed speed."""
        left_rad = np.maximum(self._spent_rad - speed_rad_s * max(now_s - self._at_s, 0.0), 0.0)
        if (left_rad + off_rad).max() > NEAR_RAD:
            raise OutOfReach("repeated trajectories that do not start where the arm is")
        self._spent_rad, self._at_s = left_rad + off_rad, now_s


def asks_to_stay(trajectory: Trajectory, here_rad: np.ndarray) -> bool:
    """Whether the trajectory is a hold; a single point at rest may be further off: it is predicted ahead."""
    off_rad = np.abs(trajectory.positions_rad - here_rad).max()
    is_point_at_rest = len(trajectory.times_s) == 1 and not trajectory.velocities_rad_s.any()
    return bool(off_rad <= (NEAR_RAD if is_point_at_rest else HOLD_RAD))


def allowed_rad_s(limits: JointLimits, lease: ArmLease) -> np.ndarray:  # (J,)
    return limits.velocity_rad_s * max(lease.speed, 0.01) * SPEED_SLACK


def refuse_beyond(trajectory: Trajectory, here_rad: np.ndarray, limits: JointLimits, lease: ArmLease) -> None:
    """Raise for a trajectory that exceeds the joints' limits, or is faster from here than the lease allows.

    This includes what a controller makes of it between its points.
    """
    if trajectory.times_s[0] > 0.0:
        trajectory = Trajectory(
            np.concatenate([[0.0], trajectory.times_s]),
            np.vstack([here_rad, trajectory.positions_rad]),
            np.vstack([np.zeros_like(here_rad), trajectory.velocities_rad_s]),
        )
    elif np.abs(trajectory.positions_rad[0] - here_rad).max() > NEAR_RAD:
        raise OutOfReach("a trajectory that does not start where the arm is")
    for positions in trajectory.furthest_rad():
        for line in limits.position_violations(positions):
            raise OutOfReach(line)
    fastest_rad_s, most_rad_s = trajectory.fastest_rad_s(), allowed_rad_s(limits, lease)
    if (fastest_rad_s > most_rad_s).any():
        joint = int((fastest_rad_s / most_rad_s).argmax())
        raise OutOfReach(
            f"joint {joint + 1} would turn at {np.degrees(fastest_rad_s[joint]):.1f} deg/s, "
            f"{lease.holder} allows {np.degrees(most_rad_s[joint]):.1f}"
        )


@contextmanager
def _discovery_range(value: str) -> Iterator[None]:
    """Set the discovery range while a context starts, as ROS reads it from the environment; drops the lab's peers."""
    before = {name: os.environ.get(name) for name in (RANGE, PEERS)}
    # A profile is read once per process, and LOCALHOST would be added to it.
    os.environ.update({RANGE: "SYSTEM_DEFAULT" if is_kept_here() else value.upper(), PEERS: ""})
    try:
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                del os.environ[name]
            else:
                os.environ[name] = value_before
