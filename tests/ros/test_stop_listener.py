"""What nodes publish about the stops they obey, as read by `opc release`."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")

from std_msgs.msg import String

from opc_ros.ros.stop_listener import ObeyedStop


@pytest.mark.parametrize("stop_ns", [0, 1_794_992_791_052_529_961])
def test_a_listeners_message_is_read_as_it_was_written(stop_ns: int) -> None:
    said = ObeyedStop("/iiwa/arm", "0a1b", stop_ns)
    assert ObeyedStop.from_msg(said.to_msg()) == said


@pytest.mark.parametrize(
    "text", ["", "12", "/iiwa/arm 12", "arm x 12", "/iiwa/arm x -1", "/iiwa/arm x ١٢", "/a b " + "9" * 20]
)
def test_what_no_listener_writes_is_not_believed(text: str) -> None:
    assert ObeyedStop.from_msg(String(data=text)) is None
