"""A twin in a process of its own, and an observer of what it and its commander publish."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from opc_interfaces.msg import RobotStatus, SafetyEvent
from sensor_msgs.msg import JointState

from opc_ros.arms.settings import ArmSettings
from opc_ros.config import load_config
from opc_ros.ros import topics
from tests.ros.spun_node import SpunNode

ROOT = Path(__file__).resolve().parents[2]
ROBOT = "iiwa"
PATIENCE_S = 90.0  # no wait is longer than necessary, so this only costs a failing test
_FILE = load_config(ROOT / "config" / "arm_twin.yaml", ArmSettings)
# Long, so that a busy machine does not look like a dead one.
SETTINGS = dataclasses.replace(
    _FILE,
    measurement_timeout_s=20.0,
    guard_timeout_s=3.0,
    connect_timeout_s=PATIENCE_S,
    camera=dataclasses.replace(_FILE.camera, timeout_s=PATIENCE_S),
    motion=dataclasses.replace(_FILE.motion, patience=20.0),
)
KINEMATICS = SETTINGS.kinematics()


class TwinProcess:
    """`python -m sim_bridge.twin_node`, small images, faster than real time."""

    def __init__(self, domain: int | None = None, **parameters: object) -> None:
        """In the ROS domain of the environment, or in the given one."""
        given: dict[str, object] = {
            "image_size": 64,
            "camera_hz": 30.0,
            "real_time_factor": 4.0,
            "command_timeout_s": 10.0,
            "niceness": 0,
        }
        given.update(parameters)
        words = [word for name, value in given.items() for word in ("-p", f"{name}:={value}")]
        self.child = subprocess.Popen(
            [sys.executable, "-m", "sim_bridge.twin_node", "--ros-args", "-r", f"__ns:=/{ROBOT}", *words],
            cwd=ROOT,
            env=os.environ if domain is None else {**os.environ, "ROS_DOMAIN_ID": str(domain)},
        )

    def kill(self) -> None:
        """As a power cut would: without a chance to publish anything."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self) -> int:
        if self.child.poll() is None:
            self.child.terminate()
        try:
            return self.child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise


class Commander:
    """Another process that moves the arm slowly until it is killed."""

    def __enter__(self) -> Commander:
        command = [sys.executable, "-m", "tests.ros.slow_commander"]
        self._child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def move(self, watcher: Watcher) -> None:
        """Let it start, and wait until the arm is seen to move: it takes at least 8 s for its 0.08 m."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        # DDS comments on ports that other programs on this machine use.
        said = next(line for line in self._child.stdout if "RTPS_" not in line)
        assert said == "ready\n"
        self._child.stdin.write("go\n")
        self._child.stdin.flush()
        watcher.wait_until(lambda: watcher.tool_y_m() > 0.005)

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)


class Watcher:
    """Subscribes to events, the states of twin and guard and joint states, and may publish.

    It subscribes to events first: DDS announces a peer's topics in this order, so a node that is received on one of the
    others knows of this subscription.
    """

    def __init__(self) -> None:
        self.events: list[SafetyEvent] = []
        self.statuses: list[RobotStatus] = []
        self.guard_statuses: list[RobotStatus] = []
        self.joints: list[JointState] = []
        self._changed = threading.Condition()
        self._spun = SpunNode("watcher", ROBOT)
        self.node = self._spun.node
        self._listen(SafetyEvent, "safety/event", self.events, topics.RECORDED)
        self._listen(RobotStatus, "twin/status", self.statuses, topics.LATEST)
        self._listen(RobotStatus, "arm_guard/status", self.guard_statuses, topics.LATEST)
        self._listen(JointState, "joint_states", self.joints, 10)
        self._spun.start()

    def close(self) -> None:
        self._spun.close()

    def wait_until(self, is_true: Callable[[], bool], *, deadline_s: float = PATIENCE_S) -> None:
        end_s = time.monotonic() + deadline_s
        with self._changed:
            while not is_true():
                assert time.monotonic() < end_s, "did not come true in time"
                self._changed.wait(0.05)

    def act(self, function: Callable[[], Any]) -> Any:
        """Call something in the spinning thread: action clients lose a response that comes before they wait for it."""
        task = self._spun.executor.create_task(function)
        self.wait_until(task.done)
        return task.result()

    def wait_for_event(self, kind: int, words: str = "") -> SafetyEvent:
        def found() -> list[SafetyEvent]:
            return [event for event in self.events if event.kind == kind and words in event.detail]

        self.wait_until(lambda: bool(found()))
        return found()[-1]

    def wait_for_state(self, state: int) -> RobotStatus:
        self.wait_until(lambda: bool(self.statuses) and self.statuses[-1].state == state)
        return self.statuses[-1]

    def tool_y_m(self) -> float:
        """Where the tool was seen last, to the left of its start."""
        return KINEMATICS.locate_tool(np.array(self.joints[-1].position)).y_m if self.joints else 0.0

    def wait_for_rest(self) -> None:
        count = len(self.joints)
        self.wait_until(lambda: len(self.joints) > count + 20)
        self.wait_until(lambda: max(map(abs, self.joints[-1].velocity)) < 1e-3)

    def wait_for_guard(self, state: int) -> RobotStatus:
        self.wait_until(lambda: bool(self.guard_statuses) and self.guard_statuses[-1].state == state)
        return self.guard_statuses[-1]

    def _listen(self, kind: type, topic: str, heard: list[Any], qos: Any) -> None:
        def keep(msg: Any) -> None:
            with self._changed:
                heard.append(msg)
                self._changed.notify_all()

        self.node.create_subscription(kind, topic, keep, qos)
