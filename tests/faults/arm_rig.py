"""One moving arm as real processes over DDS: a driver that knows neither stops nor heartbeats, guard, runner, worker.

All messages between driver, guard and runner pass through the rig, which can delay, repeat or drop them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import EpisodeEvent, RobotStatus, SafetyEvent
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, JointState
from std_msgs.msg import Bool, Header, String
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.limits import JointLimits
from opc_ros.deployment.keys import load_signer
from opc_ros.deployment.permit import Rung, sign_permit
from opc_ros.deployment.signing import find_signer
from opc_ros.deployment.stop_release import sign_release
from opc_ros.episode import Frame
from opc_ros.policies.candidate import Candidate
from opc_ros.ros import convert, topics
from opc_ros.ros.joint_messages import reading_from_msg
from opc_ros.ros.permit_messages import permit_to_msg
from opc_ros.ros.stop_listener import ObeyedStop
from tests.deployment.lab import make_lab
from tests.deployment.permits import make_permit, session_in
from tests.faults.arm_nodes import DRIVER, GUARD, IMAGE_SIZE, ROBOT, RUNNER, command_of, put_first, write_arms
from tests.faults.mischief import Clocks
from tests.faults.moving_candidates import make_candidates

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
KEPT = 3000  # joint states: half a minute
MOVING_RAD_S = 0.05
REST_RAD_S = 0.02


class RigFailed(Exception):
    """The lab itself did not start properly, so nothing was measured."""


class LeaseEnded(Exception):
    """The arm was held before anything was broken: on a machine so busy that a live process looks like a dead one."""


class ArmRig:
    """Start it, let it move, break something, watch, repair it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_lab(folder, {ROBOT: ["full"]})
        self._signer = load_signer(folder / "deployment" / "keys")
        self._people = find_signer(folder / "deployment" / "keys", folder / "deployment" / "keys" / "ada.person.pem")
        self.candidates = make_candidates(folder / "moving")
        self.settings = write_arms(folder)
        self.limits = JointLimits(self.settings.load_model())
        self.kinematics = self.settings.kinematics()
        self.clocks = Clocks(folder / "clocks")
        if not self.clocks.can_step:
            raise RigFailed("no C compiler, so no clock can be stepped: install cc")
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        self.joints: deque[tuple[float, np.ndarray, float]] = deque(maxlen=KEPT)  # received at, positions, speed
        self.commands: deque[tuple[float, JointTrajectory]] = deque(maxlen=KEPT)
        self.events: deque[tuple[float, SafetyEvent]] = deque(maxlen=KEPT)
        self.statuses: dict[str, RobotStatus] = {}
        self._stop_ids: set[int] = set()
        self._answer, self._told = "", list[int]()  # how this lease ended, and what was reported about its episodes
        self._image: CompressedImage | None = None
        self._rng = np.random.default_rng(0)
        self.mend_relay()
        self._open_node()
        for name in (DRIVER, GUARD, RUNNER):
            self.start(name)

    def close(self) -> None:
        for child in self._children.values():
            child.send_signal(signal.SIGCONT)
            child.terminate()
        for child in self._children.values():
            try:
                child.wait(timeout=20.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._is_closing.set()
        self._thread.join(timeout=5.0)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    # What can be broken.

    def mend_relay(self) -> None:
        """Everything gets through unchanged."""
        self.is_silent = self.is_frozen = self.is_cut = self.is_black = False

    def double_joints(self) -> Any:
        """Another publisher of the guard's and the runner's joint states, which claims that the arm is elsewhere."""
        makers = [self.node.create_publisher(JointState, topic, 10) for topic in ("guard/joint_states", "joint_states")]
        elsewhere = self.joints[-1][1] + 0.3

        def say() -> None:
            msg = JointState(name=list(self.settings.joint_names), position=elsewhere.tolist())
            msg.header.stamp = self.node.get_clock().now().to_msg()
            for maker in makers:
                maker.publish(msg)

        timer = self.act(lambda: self.node.create_timer(0.01, say))

        def end() -> None:
            self.node.destroy_timer(timer)
            for maker in makers:
                self.node.destroy_publisher(maker)

        return lambda: self.act(end)

    def kill(self, name: str) -> None:
        self._children[name].kill()
        self._children[name].wait()

    def kill_worker(self) -> None:
        """The candidate's process: a child of the program that the runner gets its workers from."""
        for nursery in psutil.Process(self._children[RUNNER].pid).children():
            for worker in nursery.children():
                worker.send_signal(signal.SIGKILL)

    def is_running(self, name: str) -> bool:
        return self._children[name].poll() is None

    def start(self, name: str) -> None:
        self.clocks.step(name, 0.0)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._children[name] = subprocess.Popen(
                command_of(name, self.folder),
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.clocks.environment(name)},
                start_new_session=True,
            )
        if name == DRIVER:
            put_first(self._children[name].pid)

    # Set it in motion, and make it ready again.

    def recover(self) -> None:
        """No stop, all processes running, the relay passes everything, and no lease is open."""
        self.mend_relay()
        for name in (DRIVER, GUARD, RUNNER):
            self.clocks.step(name, 0.0)
            if not self.is_running(name):
                self.statuses.pop(name, None)
                self.start(name)
        try:
            self.wait_until(self._is_idle, "guard and runner do not come back")
        except RigFailed as error:
            raise RigFailed(f"{error}: {self._describe()}") from error

    def _describe(self) -> str:
        """What guard and runner report about themselves, and their last output."""
        said = [
            f"{name} in state {self.statuses[name].state}" if name in self.statuses else f"{name} unheard"
            for name in (GUARD, RUNNER)
        ]
        logs = [(self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-4:] for name in (GUARD, RUNNER)]
        return "; ".join([*said, f"stops {sorted(self._stop_ids)}", *(line for log in logs for line in log)])

    def move(self, candidate: Candidate) -> None:
        """Lease the arm for a long time, and wait until an episode has begun: the arm is about to leave its start."""
        self.wait_until(lambda: bool(self._client.server_is_ready()), "no runner")
        session = session_in(self.statuses[RUNNER].session)
        permit = make_permit(candidate.id, ROBOT, Rung.FULL, length_s=3600.0, episodes=50, session=session)
        goal = RunEpisodes.Goal(
            permit=permit_to_msg(sign_permit(permit, self._signer)),
            candidate_path=str(candidate.folder),
            seed=1,
            lease_id=permit.lease_id,
        )
        self._answer = ""
        self._told.clear()
        sent = self.act(lambda: self._client.send_goal_async(goal))
        self.wait_until(sent.done, "the goal is not answered")
        self.act(lambda: sent.result().get_result_async().add_done_callback(self._on_result))
        self.wait_until(lambda: bool(self._answer) or EpisodeEvent.BEGIN in self._told, "no episode gets going")
        if self._answer:
            raise LeaseEnded(self._answer)

    def wait_until_moving(self) -> None:
        self.wait_until(lambda: bool(self._answer) or self.joints[-1][2] > MOVING_RAD_S, "the arm does not move")
        if self._answer:
            raise LeaseEnded(self._answer)

    @property
    def answer(self) -> str:
        """How the lease ended; empty while it runs."""
        return self._answer

    def press_stop(self) -> None:
        self._stop.publish(Bool(data=True))

    def wait_until(self, holds: Callable[[], bool], otherwise: str, *, within_s: float = PATIENCE_S) -> None:
        end_s = time.monotonic() + within_s
        with self._changed:
            while not holds():
                if time.monotonic() > end_s:
                    raise RigFailed(otherwise)
                self._changed.wait(0.02)

    def act(self, function: Callable[[], Any]) -> Any:
        """Call something in the thread that spins."""
        task = self._executor.create_task(function)
        self.wait_until(task.done, "the rig's own node hangs")
        return task.result()

    def _is_idle(self) -> bool:
        for stop_ns in tuple(self._stop_ids):
            self._stop_ids.discard(stop_ns)
            self._release.publish(String(data=sign_release(self._people, ROBOT, stop_ns, time.time_ns())))
        guard, runner = self.statuses.get(GUARD), self.statuses.get(RUNNER)
        # It holds until it hears the next commander.
        well = (RobotStatus.IDLE, RobotStatus.RUNNING, RobotStatus.HOLDING)
        is_well = guard is not None and guard.state in well
        return is_well and runner is not None and runner.state == RobotStatus.IDLE

    def _on_stop_id(self, msg: String) -> None:
        if (said := ObeyedStop.from_msg(msg)) is not None and said.stop_ns:
            self._stop_ids.add(said.stop_ns)

    def _on_result(self, future: Any) -> None:
        answer = future.result()
        with self._changed:
            self._answer = (answer.result.message or "done") if answer is not None else "gone"
            self._changed.notify_all()

    # The relay.

    def _open_node(self) -> None:
        # It represents wires and hardware, which never wait for a core; DDS's threads inherit this.
        put_first(0)
        self._context = Context()
        rclpy.init(args=[], context=self._context)
        self.node = Node("rig", namespace=ROBOT, context=self._context, use_global_arguments=False)
        make, hear = self.node.create_publisher, self._hear
        self._to_guard = make(JointState, "guard/joint_states", 10)
        self._to_runner = make(JointState, "joint_states", 10)
        self._images = make(CompressedImage, "camera/image/compressed", topics.images())
        self._heartbeats = make(Header, "guard/heartbeat", 10)
        self._trajectories = make(JointTrajectory, "joint_trajectory_controller/joint_trajectory", 10)
        self._word = make(RobotStatus, "runner/guard_status", topics.LATEST)
        self._stop = make(Bool, "stop", topics.LATEST)
        self._release = make(String, "release", topics.RELEASES)
        beat = make(String, "/deployment/heartbeat", topics.RECORDED)
        self.node.create_timer(0.5, lambda: beat.publish(String(data="beat")))
        hear(JointState, "driver/joint_states", self._on_joints, qos_profile_sensor_data)
        hear(CompressedImage, "driver/image", self._on_image, topics.images())
        hear(Header, "heartbeat", lambda msg: None if self.is_cut else self._heartbeats.publish(msg), 10)
        hear(JointTrajectory, "runner/controller/joint_trajectory", self._on_runners_command, 10)
        hear(JointTrajectory, "joint_trajectory_controller/joint_trajectory", self._on_command, 10)
        hear(RobotStatus, "arm_guard/status", self._on_guard, topics.LATEST)
        hear(RobotStatus, "robot/status", lambda msg: self.statuses.update({RUNNER: msg}), topics.LATEST)
        hear(SafetyEvent, "safety/event", lambda msg: self.events.append((time.monotonic(), msg)), topics.RECORDED)
        hear(EpisodeEvent, "episode/event", lambda msg: self._told.append(msg.kind), topics.RECORDED)
        hear(String, "stop_id", self._on_stop_id, topics.STOPS)
        self._client = ActionClient(self.node, RunEpisodes, "run_episodes")
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def _spin(self) -> None:
        while not self._is_closing.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _hear(self, kind: type, topic: str, keep: Callable[[Any], object], qos: Any) -> None:
        def heard(msg: Any) -> None:
            with self._changed:
                keep(msg)
                self._changed.notify_all()

        self.node.create_subscription(kind, topic, heard, qos)

    def _on_joints(self, msg: JointState) -> None:
        reading = reading_from_msg(msg, self.settings.joint_names)
        assert reading is not None and reading.velocities_rad_s is not None  # noqa: PT018
        self.joints.append((time.monotonic(), reading.positions_rad, float(np.abs(reading.velocities_rad_s).max())))
        if self.is_silent:
            return
        self._to_guard.publish(msg)
        if not self.is_cut:
            self._to_runner.publish(msg)

    def _on_image(self, msg: CompressedImage) -> None:
        if self.is_cut:
            return
        if self.is_black:
            # Slightly different each time, like the images of a camera.
            black = self._rng.integers(0, 3, (IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)
            msg.data = convert.frame_to_msg(Frame.from_image(black, 0)).data
        elif self.is_frozen and self._image is not None:
            msg.data = self._image.data
        else:
            self._image = msg
        self._images.publish(msg)

    def _on_runners_command(self, msg: JointTrajectory) -> None:
        if not self.is_cut:
            self._trajectories.publish(msg)

    def _on_command(self, msg: JointTrajectory) -> None:
        self.commands.append((time.monotonic(), msg))

    def _on_guard(self, msg: RobotStatus) -> None:
        self.statuses[GUARD] = msg
        if not self.is_cut:
            self._word.publish(msg)
