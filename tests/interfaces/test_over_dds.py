"""Every interface crosses DDS between two processes unchanged, and an image stream loses nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[2]
INTERFACES = ROOT / "ros2_ws" / "src" / "opc_interfaces"


def spin_until(node: Any, condition: Callable[[], bool], *, deadline_s: float = 60.0) -> None:
    import rclpy

    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "nothing arrived in time"
        rclpy.spin_once(node, timeout_sec=0.05)


@pytest.fixture
def node(ros_domain: int) -> Iterator[Any]:
    import rclpy

    rclpy.init(domain_id=ros_domain)
    node = rclpy.create_node("tester")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT)


def test_every_message_service_and_action_crosses_unchanged(node: Any) -> None:
    import opc_interfaces.action
    import opc_interfaces.msg
    import opc_interfaces.srv
    from rclpy.action import ActionClient

    from tests.interfaces.answering_peer import kinds
    from tests.interfaces.sample import fill

    messages, services, actions = map(kinds, (opc_interfaces.msg, opc_interfaces.srv, opc_interfaces.action))
    for folder, found in (("msg", messages), ("srv", services), ("action", actions)):
        assert set(found) == {path.stem for path in (INTERFACES / folder).iterdir()}, (
            f"rebuild opc_interfaces: {folder}"
        )
    echoed: dict[str, Any] = {}
    publishers = {}
    for name, kind in messages.items():
        node.create_subscription(kind, f"{name}/back", lambda m, name=name: echoed.setdefault(name, m), 10)
        publishers[name] = node.create_publisher(kind, f"{name}/there", 10)
    service_clients = {name: node.create_client(kind, name) for name, kind in services.items()}
    action_clients = {name: ActionClient(node, kind, name) for name, kind in actions.items()}
    peer = start("tests.interfaces.answering_peer")
    try:
        # Repeated: that we have discovered the peer does not mean that it has discovered us.
        told = node.create_timer(
            0.5, lambda: [publishers[name].publish(fill(kind)) for name, kind in messages.items() if name not in echoed]
        )
        spin_until(node, lambda: len(echoed) == len(messages))
        node.destroy_timer(told)
        assert echoed == {name: fill(kind) for name, kind in messages.items()}

        for name, client in service_clients.items():
            assert client.wait_for_service(timeout_sec=60)
            answer = client.call_async(fill(services[name].Request))
            spin_until(node, answer.done)
            assert answer.result() == fill(services[name].Response), name

        for name, action_client in action_clients.items():
            feedback: list[Any] = []
            assert action_client.wait_for_server(timeout_sec=60)
            goal = action_client.send_goal_async(fill(actions[name].Goal), lambda m, f=feedback: f.append(m.feedback))
            spin_until(node, goal.done)
            result = goal.result().get_result_async()
            spin_until(node, result.done)
            assert result.result().result == fill(actions[name].Result), name
            # Feedback is a topic, and is lost if the peer has not discovered us yet; then another goal is sent.
            for _ in range(10):
                if not feedback:
                    goal = action_client.send_goal_async(
                        fill(actions[name].Goal), lambda m, f=feedback: f.append(m.feedback)
                    )
                    spin_until(node, goal.done)
                    again = goal.result().get_result_async()
                    spin_until(node, again.done)
            assert feedback[0] == fill(actions[name].Feedback), name
    finally:
        peer.kill()
        peer.wait()


def test_472_pixel_images_at_50_hz_all_arrive(node: Any) -> None:
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import Image

    numbers: list[int] = []
    # Deep enough for all of them: a reader that a busy machine delays must not lose any either.
    quality = QoSProfile(depth=150, reliability=ReliabilityPolicy.RELIABLE)
    subscription = node.create_subscription(Image, "image", lambda m: numbers.append(m.header.stamp.sec), quality)
    source = start("tests.interfaces.image_source", "150", "50")
    try:
        spin_until(node, lambda: len(numbers) >= 150)
        assert numbers == list(range(150))
    finally:
        node.destroy_subscription(subscription)
        source.kill()
        source.wait()
