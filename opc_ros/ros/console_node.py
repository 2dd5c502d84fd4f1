"""The console as a node: what the lab publishes goes to a web page, and what a person clicks goes to the lab."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from opc_interfaces.msg import EpisodeSummary, Label, Ranking, RecorderStatus, RobotStatus, SafetyEvent
from opc_interfaces.srv import GetDeployment
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

from opc_ros.bringup.lab_names import in_lab, read_namespace, robot_of
from opc_ros.config import described
from opc_ros.console.app import Console
from opc_ros.console.lab import ConsoleLab, LabPaths
from opc_ros.console.live import LiveView, RecorderState
from opc_ros.console.server import ConsoleServer
from opc_ros.deployment.permit import Rung
from opc_ros.ros import convert, topics
from opc_ros.ros.console_commands import LabCommands
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import KINDS
from opc_ros.ros.stop_listener import STOP_ID, ObeyedStop

LOOK_S = 1.0  # how often to look for new robots on the graph, and to ask the scheduler
TOLD_BELOW = 2  # levels below the robot's name: robot/status, safety/event, episode/summary
IMAGE_PIXELS = 320
LARGE_BYTES = 40_000  # larger images are decoded at half size, which is faster
IMAGES_A_SECOND = 4.0
STATES = {
    RobotStatus.OFFLINE: "offline",
    RobotStatus.IDLE: "idle",
    RobotStatus.RUNNING: "running",
    RobotStatus.HOLDING: "holding",
    RobotStatus.STOPPED: "stopped",
    RobotStatus.FAULT: "fault",
}
RECORDER_STATES = {
    RecorderStatus.INACTIVE: "inactive",
    RecorderStatus.WAITING: "waiting",
    RecorderStatus.RECORDING: "recording",
    RecorderStatus.SAVING: "saving",
    RecorderStatus.REFUSING: "refusing",
}
LABELS = {Label.FAILURE: "failure", Label.SUCCESS: "success"}
OUTCOMES = {
    EpisodeSummary.SAVED: "saved",
    EpisodeSummary.QUARANTINED: "quarantined",
    EpisodeSummary.DISCARDED: "discarded",
}


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Parameters of the console."""

    host: str = described("127.0.0.1", "address to listen on; anything but loopback asks every visitor for a token")
    port: int = described(
        8640, "port to listen on, or one of the next few if it is taken; 0: any free one", low=0, high=65535
    )
    store: str = described("store", "folder of the validation store")
    scores: str = described("scores/published", "folder of the ranking that the gate reads")
    deployment: str = described("deployment", "folder of the scheduler's keys, queue and audit log")
    candidates: str = described("candidates", "folder of registered candidates")


class ConsoleNode(OpcNode[ConsoleSettings]):
    """Shows the lab in a browser."""

    NAME = "console"
    SETTINGS = ConsoleSettings

    def setup(self, settings: ConsoleSettings) -> None:
        paths = LabPaths(
            *(Path(p) for p in (settings.store, settings.scores, settings.deployment, settings.candidates))
        )
        self._live = LiveView(time.monotonic)
        self._commands = LabCommands(self)
        console = Console(self._live, ConsoleLab(paths), self._commands)
        self._server = ConsoleServer(console, settings.host, settings.port)
        self._watching: dict[str, Any] = {}  # topic -> subscription
        self._cameras: dict[str, Any] = {}  # robot -> subscription to its camera, while somebody watches
        self._shown_s: dict[str, float] = {}
        self._asking = threading.Lock()
        self._status = self.create_client(GetDeployment, in_lab("/deployment/status"))
        self.held.callback(self.destroy_client, self._status)

    def start(self) -> None:
        address = self._server.start()
        self.get_logger().info(f"console: {address}")
        self._timer = create_steady_timer(self, LOOK_S, self._look)
        self._look()

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        for subscription in (*self._watching.values(), *self._cameras.values()):
            self.destroy_subscription(subscription)
        self._watching.clear()
        self._cameras.clear()
        self._server.stop()

    def _look(self) -> None:
        """Subscribe to every robot on the graph, and to cameras only while somebody watches."""
        kinds: dict[str, tuple[type, Callable[..., None], Any]] = {
            "opc_interfaces/msg/RobotStatus": (RobotStatus, self._on_status, topics.LATEST),
            "opc_interfaces/msg/RecorderStatus": (RecorderStatus, self._on_recorder, topics.LATEST),
            "opc_interfaces/msg/SafetyEvent": (SafetyEvent, self._on_safety, topics.RECORDED),
            "opc_interfaces/msg/EpisodeSummary": (EpisodeSummary, self._on_summary, topics.RECORDED),
            "opc_interfaces/msg/Ranking": (Ranking, self._on_ranking, topics.LATEST),
        }
        cameras: dict[str, str] = {}
        for topic, types in self.get_topic_names_and_types():
            if types[0] in kinds and topic not in self._watching:
                kind, act, qos = kinds[types[0]]
                if robot_of(topic, TOLD_BELOW) or topic == in_lab("/ranking"):
                    self._watching[topic] = self.create_subscription(kind, topic, partial(act, topic), qos)
            elif (robot := robot_of(topic, 1)) and topic.endswith(f"/{STOP_ID}") and topic not in self._watching:
                act = partial(self._on_stop_id, robot)
                self._watching[topic] = self.create_subscription(String, topic, act, topics.STOPS)
            elif types[0] == "sensor_msgs/msg/CompressedImage":
                cameras.setdefault(_robot_of_camera(topic), topic)
        self._commands.prepare_stops(self._live.robot_names())
        self._follow_cameras(cameras)
        self._ask_scheduler()

    def _follow_cameras(self, cameras: dict[str, str]) -> None:
        wanted = self._live.watched()
        for robot in wanted & cameras.keys() - self._cameras.keys():
            act = partial(self._on_image, robot)
            self._cameras[robot] = self.create_subscription(
                CompressedImage, cameras[robot], act, qos_profile_sensor_data
            )
        for robot in self._cameras.keys() - wanted:
            self.destroy_subscription(self._cameras.pop(robot))

    def _ask_scheduler(self) -> None:
        if self._status.service_is_ready() and self._asking.acquire(blocking=False):
            future = self._status.call_async(GetDeployment.Request())
            future.add_done_callback(self._on_deployment)

    def _on_deployment(self, future: Any) -> None:
        self._asking.release()
        answer = future.result()
        if answer is not None and answer.success:
            self._live.set_document("deployment", json.loads(answer.status_json))

    def _on_status(self, topic: str, msg: RobotStatus) -> None:
        state = STATES.get(msg.state, "unknown")
        if topic.endswith("arm_guard/status"):
            self._live.update_robot(msg.robot, guard=state, guard_reason=msg.reason)
            return
        rungs = {rung.number: rung.value for rung in Rung}
        self._live.update_robot(
            msg.robot,
            state=state,
            reason=msg.reason,
            candidate_id=msg.candidate_id,
            permit_id=msg.permit_id,
            episode_id=msg.episode_id,
            rung=rungs.get(msg.rung, "") if msg.permit_id else "",
            step=int(msg.step),
            episodes_left=int(msg.episodes_left),
        )

    def _on_stop_id(self, robot: str, msg: String) -> None:
        """Remember which stops an operator's release has to name."""
        if (said := ObeyedStop.from_msg(msg)) is not None:
            self._live.set_stop(robot, f"{said.node} {said.listener}", said.stop_ns)

    def _on_recorder(self, topic: str, msg: RecorderStatus) -> None:
        view = RecorderState(
            state=RECORDER_STATES.get(msg.state, "unknown"),
            reason=msg.reason,
            frame_rate_hz=round(msg.frame_rate_hz, 1),
            disk_free_bytes=int(msg.disk_free_bytes),
            saved=int(msg.episodes_saved),
            quarantined=int(msg.episodes_quarantined),
            unlabelled=int(msg.episodes_unlabelled),
        )
        self._live.update_robot(msg.robot, recorder=view)

    def _on_safety(self, topic: str, msg: SafetyEvent) -> None:
        stamp_ns = convert.stamp_to_ns(msg.header.stamp)
        self._live.add_event(stamp_ns, msg.robot, KINDS.get(msg.kind, "event"), msg.detail)
        if msg.kind == SafetyEvent.RELEASED:
            self._commands.note_released(msg.robot)
        elif msg.kind == SafetyEvent.REFUSED:
            self._commands.note_refused(msg.robot, msg.detail)

    def _on_summary(self, topic: str, msg: EpisodeSummary) -> None:
        label = LABELS.get(msg.label.value, "unlabelled")
        text = f"{msg.episode_id}, {msg.steps} steps, {label}" + (f": {msg.reason}" if msg.reason else "")
        self._live.add_event(convert.stamp_to_ns(msg.header.stamp), msg.robot, OUTCOMES[msg.outcome], text)

    def _on_ranking(self, topic: str, msg: Ranking) -> None:
        entries = [{"candidate_id": score.candidate_id, "name": score.name} for score in msg.scores]
        self._live.set_document("ranking", {"ranking_id": msg.ranking_id, "candidates": entries})

    def _on_image(self, robot: str, msg: CompressedImage) -> None:
        """Keep a few small images per second, whatever the camera's rate."""
        now_s = time.monotonic()
        if now_s - self._shown_s.get(robot, 0.0) < 1.0 / IMAGES_A_SECOND:
            return
        self._shown_s[robot] = now_s
        small = shrink(bytes(msg.data))
        if small is not None:
            self._live.set_image(robot, small)


def _robot_of_camera(topic: str) -> str:
    """Camera topics may be nested to any depth below the robot's name."""
    above = f"/{read_namespace()}/".replace("//", "/")
    return topic.removeprefix(above).split("/")[0] if topic.startswith(above) else ""


def shrink(data: bytes) -> bytes | None:
    """A camera image as a small JPEG; None if it cannot be decoded."""
    how = cv2.IMREAD_REDUCED_COLOR_2 if len(data) > LARGE_BYTES else cv2.IMREAD_COLOR
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), how) if data else None
    if image is None:
        return None
    scale = min(1.0, IMAGE_PIXELS / max(image.shape[:2]))
    if scale < 1.0:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    done, small = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 75])
    return small.tobytes() if done else None


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ConsoleNode, argv)


if __name__ == "__main__":
    sys.exit(main())
