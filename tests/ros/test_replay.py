"""`opc store replay`: what was recorded is published again, under the original names and in the original order."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
import rclpy
from opc_interfaces.msg import EpisodeEvent, GraspStep, Label
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, JointState

from opc_ros.cli.main import main
from opc_ros.episode import EpisodeHeader
from opc_ros.ros import convert, topics
from opc_ros.store import open_store, schemas
from tests.store.grasps import make_episode
from tests.store.wire import WireMessages

pytestmark = pytest.mark.ros
MESSAGES = 13  # begin, camera info, joint states, an image and a step three times, end, label


def test_a_listener_hears_the_episode_as_it_was(
    ros_domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(ros_domain))
    episode = make_episode()
    wire = WireMessages()
    with open_store(tmp_path, create=True) as store:
        writer = store.begin(
            EpisodeHeader(episode.id, "left", "scripted", episode.started_ns),
            {schemas.JOINT_STATE: "/lbr/joint_states"},
        )
        writer.add_wire_message(wire.camera_info(5))
        for step in episode.steps:
            writer.add_wire_message(wire.joint_state(step.frame.stamp_ns + 7))
            writer.add_step(step)
        writer.commit(episode.label)
    heard: list[tuple[str, object]] = []
    context = Context()
    rclpy.init(args=[], context=context, domain_id=ros_domain)
    node = Node("listener", namespace="left", context=context, use_global_arguments=False)
    for kind, topic in (
        (EpisodeEvent, "episode/event"),
        (CompressedImage, "camera/image/compressed"),
        (GraspStep, "grasp/step"),
        (Label, "episode/label"),
        (CameraInfo, "camera/camera_info"),
        (JointState, "/lbr/joint_states"),
    ):
        node.create_subscription(kind, topic, lambda msg, topic=topic: heard.append((topic, msg)), topics.RECORDED)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    done, deadline_s = threading.Event(), time.monotonic() + 60.0

    def spin() -> None:
        while not done.is_set() or len(heard) < MESSAGES:
            assert time.monotonic() < deadline_s, f"heard {len(heard)}"
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)
    thread.start()
    assert main(["store", "replay", episode.id, "--store", str(tmp_path), "--wait-s", "20", "--json"]) == 0
    done.set()
    thread.join()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)
    assert json.loads(capsys.readouterr().out)["messages"] == len(heard) == MESSAGES
    steps = [msg for topic, msg in heard if topic == "grasp/step"]
    assert [convert.action_from_msg(step.action) for step in steps] == [step.action for step in episode.steps]
    images = [bytes(msg.data) for topic, msg in heard if topic == "camera/image/compressed"]
    assert images == [step.frame.data for step in episode.steps]
    assert [list(msg.position) for topic, msg in heard if topic == "/lbr/joint_states"] == [[0.25, -1.5]] * 3
    assert [msg.header.frame_id for topic, msg in heard if topic == "camera/camera_info"] == ["lens"]
    assert [msg.kind for topic, msg in heard if topic == "episode/event"] == [EpisodeEvent.BEGIN, EpisodeEvent.END]


def test_an_episode_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(tmp_path, create=True):
        pass
    assert main(["store", "replay", "nope", "--store", str(tmp_path)]) == 1
    assert "nope" in capsys.readouterr().err
