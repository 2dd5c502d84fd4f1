"""The ROS side of an arm: what is received from it, what is sent to it, and who may move it now."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rclpy
from opc_interfaces.msg import SafetyEvent
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState

from opc_ros.arms.frozen_camera import FrozenCamera
from opc_ros.arms.safety import StopSwitch, Watchdog
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory
from opc_ros.bringup.lab_names import in_lab
from opc_ros.episode import Frame
from opc_ros.errors import ArmError, ArmLost, EpisodeError, EpisodeStopped, OpcError, OutOfReach
from opc_ros.ros import convert, topics
from opc_ros.ros.arm_measurements import ArmMeasurements
from opc_ros.ros.arm_way import ArmWay, DirectWay
from opc_ros.ros.guard_word import GuardWord
from opc_ros.ros.hold_sender import HoldSender
from opc_ros.ros.joint_messages import JointReading, reading_from_msg, trajectory_to_msg
from opc_ros.ros.node_health import NodeHealth, spin_until_closed
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import SafetyReporter, StopChannel

PULSE_S = 0.05  # how often a waiting caller checks again even if nothing has arrived
MOST_STALE = 3  # joint states in a row with stale timestamps before the arm counts as lost

WayMaker = Callable[[Node, ArmSettings, Callable[[str], None]], ArmWay]


class ArmLink:
    """A node with its own spinning thread, so that callers may block anywhere."""

    def __init__(
        self,
        settings: ArmSettings,
        episode: Callable[[], str] | None = None,
        why_to_stop: Callable[[], str | None] | None = None,
        make_way: WayMaker = DirectWay,
        keys: Path | None = None,
        use_sim_time: bool = False,
    ) -> None:
        """`why_to_stop` is asked throughout every motion; a reason holds the arm and aborts the motion.

        `make_way` creates the path that commands take; measurements come over ROS. `keys` says who may release a stop.
        """
        settings = self.settings = settings.with_full_names()
        self.switch = StopSwitch(settings.robot)
        self._limits = settings.joint_limits()
        self.measured = ArmMeasurements(use_sim_time=use_sim_time)
        self._changed = self.measured.changed
        self._watchdog = Watchdog("joint states", settings.measurement_timeout_s, time.monotonic)
        self._why_to_stop = why_to_stop or (lambda: None)
        self._eye, self._kinematics = FrozenCamera(), settings.kinematics()
        self._stale_count = 0
        self._lost = self._fault = ""
        self._context = Context()
        rclpy.init(args=[], context=self._context)
        self._node = Node(
            "arm",
            namespace=in_lab(settings.robot),
            context=self._context,
            use_global_arguments=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter("use_sim_time", value=use_sim_time)],
        )
        self.safety = SafetyReporter(self._node, settings.robot, episode)
        self.stop = StopChannel(self._node, self.switch, self.safety, self.hold, keys)
        try:
            self._way = make_way(self._node, settings, self._note_fault)
        except OpcError:
            self._node.destroy_node()
            rclpy.try_shutdown(context=self._context)
            raise
        self._connect_topics()
        self._is_closing = threading.Event()
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        # Not spin(): rclpy has a race if an executor is shut down while another thread spins it.
        spins = (self._executor, NodeHealth(self._node), self._is_closing)
        name = f"{settings.robot} arm link"
        self._thread = threading.Thread(target=spin_until_closed, args=spins, name=name, daemon=True)
        self._thread.start()
        # Without closing, ROS's threads would abort the program at its end.
        atexit.register(self.close)

    def close(self) -> None:
        """Hold the arm, sign off and disconnect."""
        atexit.unregister(self.close)
        self._holds.settle(self._changed)
        self._is_closing.set()
        self._thread.join(timeout=2.0)
        self._way.close()
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def now_ns(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    def begin(self) -> None:
        """Ask permission to move through one episode, and wait until driver, gripper, camera and guard are there."""
        self._way.begin()
        self.connect()

    def rest(self) -> None:
        """Between episodes: hold the arm, and give the permission back."""
        self._holds.settle(self._changed)
        self._way.rest()

    def connect(self) -> None:
        """Wait for driver, gripper, camera and guard, and clear an earlier loss."""
        with self._changed:
            deadline = time.monotonic() + self.settings.connect_timeout_s
            while missing := self._find_missing():
                if self._fault and not self.measured.has_joints:
                    raise ArmError(f"arm {self.settings.robot}: {self._fault}")
                if time.monotonic() >= deadline:
                    raise ArmLost(
                        f"arm {self.settings.robot}: {'; '.join(missing)}, in {self.settings.connect_timeout_s:g} s: "
                        "are driver, gripper and camera running in this ROS domain?"
                    )
                self._changed.wait(PULSE_S)
            self._lost = ""

    def wait_for(
        self,
        is_done: Callable[[], bool],
        *,
        timeout_s: float,
        may_be_stopped: bool = False,
        may_be_unguarded: bool = False,
    ) -> bool:
        """Wait until new measurements fulfil the condition; returns whether they did in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                self.refuse_if_unfit(may_be_stopped=may_be_stopped, may_be_unguarded=may_be_unguarded)
                if is_done():
                    return True
                if not may_be_stopped and (reason := self._why_to_stop()):
                    self.hold()
                    raise EpisodeStopped(reason)
                left_s = deadline - time.monotonic()
                if left_s <= 0.0:
                    return False
                self._changed.wait(min(left_s, PULSE_S))

    def refuse_if_unfit(self, *, may_be_stopped: bool = False, may_be_unguarded: bool = False) -> None:
        if not may_be_stopped:
            self.switch.refuse_if_pressed()
        self._look_after_driver()
        if not (may_be_stopped or may_be_unguarded):
            self._look_after_guard()
        if self._lost:
            raise ArmLost(f"arm {self.settings.robot}: {self._lost}; check the driver, then begin a new episode")

    def reading(self) -> JointReading:
        """The latest joint measurement."""
        if not self.measured.has_joints:
            raise ArmLost(f"arm {self.settings.robot}: {self._fault or self._watchdog.describe()}")
        return self.measured.reading()

    def reading_at(self, stamp_ns: int) -> JointReading:
        """The joint measurement closest to a time."""
        self.reading()
        return self.measured.reading_at(stamp_ns)

    def frame_after(self, stamp_ns: int) -> Frame | None:
        """The newest image, if it has a later timestamp and did not arrive too long ago."""
        return self.measured.frame_after(stamp_ns, self.settings.camera.timeout_s)

    def send(self, trajectory: Trajectory) -> None:
        """The only place that moves the arm: refuses trajectories beyond its limits instead of sending them."""
        for positions in trajectory.positions_rad:
            for line in self._limits.position_violations(positions):
                self.report(SafetyEvent.REFUSED, line)
                raise OutOfReach(f"arm {self.settings.robot}: {line}")
        with self._changed:
            self.refuse_if_unfit()  # under the lock, so that no trajectory follows a stop's hold
            self._way.beat()
            self._command(trajectory)
            self._holds.note(trajectory)

    def grip(self, aperture_m: float) -> None:
        """Command the gripper to an opening, without waiting."""
        self.refuse_if_unfit()
        self._way.grip(aperture_m)

    def hold(self) -> None:
        """Hold the arm where it is; sends nothing if its position is unknown or it is at rest already."""
        with self._changed:
            self._holds.hold()
            self._changed.notify_all()

    def _command(self, trajectory: Trajectory) -> None:
        self._way.send(trajectory_to_msg(trajectory, self.settings.joint_names))

    def report(self, kind: int, detail: str) -> None:
        self.safety.report(kind, detail)

    def lay_out(self, seed: int) -> None:
        """Fill a simulated bin."""
        name, timeout_s = self.settings.lay_out, self.settings.connect_timeout_s
        # A twin publishes no measurements while it fills its bin.
        self._watchdog.rest()
        self._way.lay_out(seed, timeout_s)
        laid_out_ns = self.now_ns()
        is_back = self.wait_for(
            lambda: self.reading().stamp_ns > laid_out_ns, timeout_s=timeout_s, may_be_unguarded=True
        )
        if not is_back:
            raise ArmLost(f"arm {self.settings.robot}: no joint states after {name}: is the twin running?")
        self.connect()  # a guard that saw the twin's joints jump needs time to believe it

    def _connect_topics(self) -> None:
        node, settings = self._node, self.settings
        node.create_subscription(JointState, settings.joint_states, self._on_joints, qos_profile_sensor_data)
        node.create_subscription(JointState, settings.gripper.state, self._on_gripper, qos_profile_sensor_data)
        image_class = CompressedImage if settings.camera.is_compressed else Image
        quality = topics.images(is_reliable=settings.camera.is_reliable)
        node.create_subscription(image_class, settings.camera.topic, self._on_frame, quality)
        self._guard = GuardWord(node, settings.guard, settings.guard_timeout_s, self._on_guard)
        self._holds = HoldSender(settings, self._guard, self.measured.newest, self._command)
        create_steady_timer(node, 1.0 / settings.heartbeat_hz, self._on_timer)

    def _find_missing(self) -> list[str]:
        settings, measured = self.settings, self.measured
        wanted = (
            (self.now_ns() > 0, "no time on /clock"),
            (measured.has_joints and not self._watchdog.is_expired, f"no joint states on {settings.joint_states}"),
            (measured.has_aperture, f"no {settings.gripper.joint} on {settings.gripper.state}"),
            (measured.has_frame, f"no images on {settings.camera.topic}"),
            (self._guard.allows_motion, f"no guard on {settings.guard} that hears us{self._guard.reason}"),
        )
        return [*(line for is_there, line in wanted if not is_there), *self._way.find_missing()]

    def _on_guard(self) -> None:
        with self._changed:
            self._holds.hear_guard()
            self._changed.notify_all()

    def _on_joints(self, msg: JointState) -> None:
        try:
            reading = reading_from_msg(msg, self.settings.joint_names)
        except ArmError as error:
            self._note_fault(str(error))
            return
        if reading is None or self.now_ns() == 0:  # before the first /clock message the age is unknown
            return
        if complaint := self._stale(reading.stamp_ns, self.settings.measurement_timeout_s):
            self._note_fault(f"joint states {complaint}")
            self._stale_count += 1
            if self._stale_count == MOST_STALE:
                self._lose_once(f"joint states {complaint}")
            return
        self._stale_count = 0
        if (rivals := self._node.count_publishers(self.settings.joint_states)) > 1:
            self._lose_once(f"{rivals} publishers of {self.settings.joint_states}, expected one")
            return
        with self._changed:
            self._watchdog.feed()
            self.measured.keep_joints(reading)
            self._holds.hear_joints()
            self._changed.notify_all()

    def _on_gripper(self, msg: JointState) -> None:
        gripper = self.settings.gripper
        if gripper.joint in msg.name and len(msg.position) == len(msg.name):
            aperture = msg.position[list(msg.name).index(gripper.joint)] * gripper.metres_per_unit
            with self._changed:
                self.measured.keep_aperture(float(aperture))
                self._changed.notify_all()

    def _on_frame(self, msg: CompressedImage | Image) -> None:
        try:
            frame = convert.frame_from_msg(msg)
        except EpisodeError as error:
            self._note_fault(str(error))
            return
        if self.now_ns() == 0:
            return
        if complaint := self._stale(frame.stamp_ns, self.settings.camera.timeout_s):
            self._note_fault(f"images {complaint}")
            return
        with self._changed:
            self.measured.keep_frame(frame)
            if self.measured.has_joints and (line := self._eye.see(frame.data, *self._where(frame.stamp_ns))):
                self._lose_once(line)
            self._changed.notify_all()

    def _where(self, stamp_ns: int) -> tuple[np.ndarray, np.ndarray]:
        """Joint angles (J,) and tool position (3,) closest to a time."""
        joints = self.reading_at(stamp_ns).positions_rad
        tool = self._kinematics.locate_tool(joints)
        return joints, np.array((tool.x_m, tool.y_m, tool.z_m))

    def _stale(self, stamp_ns: int, timeout_s: float) -> str:
        """Why a timestamp is too old or too new: a driver or bridge may repeat old measurements."""
        age_s, allowed_s = (self.now_ns() - stamp_ns) * 1e-9, max(timeout_s, self.settings.stamp_tolerance_s)
        return f"stamped {age_s:.2f} s ago, allowed {allowed_s:.2f}" if abs(age_s) > allowed_s else ""

    def _on_timer(self) -> None:
        self._holds.stay_awake()
        self._way.beat()
        self._look_after_driver()

    def _look_after_driver(self) -> None:
        with self._changed:
            if silence := self._watchdog.bark():
                self._lose(silence)
            if ended := self._way.why_lost():
                self._lose_once(ended)

    def _look_after_guard(self) -> None:
        """Stop unless the guard says that it is watching: one that is blind, holding or gone ends the motion."""
        with self._changed:
            if not self._lost and not self._guard.allows_motion:
                self._lose(self._guard.complaint)

    def _lose_once(self, why: str) -> None:
        with self._changed:
            if not self._lost:
                self._lose(why)

    def _lose(self, why: str) -> None:
        self._lost = why
        self.hold()
        self.report(SafetyEvent.WATCHDOG, why)
        self._changed.notify_all()

    def _note_fault(self, line: str) -> None:
        if line != self._fault:
            self._fault = line
            self.report(SafetyEvent.FAULT, line)
