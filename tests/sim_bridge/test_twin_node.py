from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import psutil
import pytest

pytest.importorskip("rclpy")

import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter

from sim_bridge.twin_node import TwinNode
from tests.ros.twin_rig import TwinProcess

pytestmark = pytest.mark.ros


@pytest.fixture
def node(ros_domain: int) -> Iterator[TwinNode]:
    rclpy.init(args=["--ros-args", "-r", "__ns:=/iiwa", "-p", "image_size:=32"])
    node = TwinNode()
    yield node
    node.close()
    rclpy.shutdown()


def heard_topics(node: TwinNode) -> set[str]:
    return {name for name, _ in node.get_subscriber_names_and_types_by_node("twin", "/iiwa")}


def test_only_an_active_twin_takes_commands(node: TwinNode):
    commands = "/iiwa/joint_trajectory_controller/joint_trajectory"
    for _ in range(2):
        assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert commands not in heard_topics(node)
        assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
        assert {commands, "/iiwa/gripper/command", "/iiwa/heartbeat", "/iiwa/stop"} <= heard_topics(node)
        refusal = node.set_parameters([Parameter("camera_hz", value=5.0)])[0]
        assert not refusal.successful
        assert "can only be set while unconfigured" in refusal.reason
        assert node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
        assert commands not in heard_topics(node)
        assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS


def test_a_twin_whose_camera_died_ends_with_an_error_and_leaves_nobody_behind(ros_domain: int):
    twin = TwinProcess()
    parent, deadline_s = psutil.Process(twin.child.pid), time.monotonic() + 30
    while not (cameras := [p for p in parent.children() if "spawn_main" in " ".join(p.cmdline())]):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    family = parent.children(recursive=True)
    cameras[0].send_signal(signal.SIGKILL)
    assert twin.child.wait(timeout=30) == 1
    psutil.wait_procs(family, timeout=10)
    assert not any(p.is_running() for p in family)
