"""The notifier as a process: an arm that is held reaches a real webhook."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import SafetyEvent

from opc_ros.ros import topics
from tests.notices.receiver import receiving
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]


def test_a_held_arm_is_reported_to_the_webhook(start: Start, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OPC_WEBHOOK", receiver.url)
        notifier = start("notifier", "/", webhook="slack", lab="farm", look_s=0.2)
        events = probe.publisher(SafetyEvent, "/arm1/safety/event", topics.RECORDED)
        events.publish(SafetyEvent(robot="arm1", kind=SafetyEvent.WATCHDOG, detail="it fell silent"))
        probe.until(lambda: receiver.posts, "nothing was told")
        assert receiver.posts == [{"text": "*arm1: the arm was held* (farm)\nit fell silent"}]
        assert "secret" not in "\n".join(notifier.said())


def test_without_an_address_it_says_what_to_do(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPC_WEBHOOK", raising=False)
    notifier = start("notifier", "/", webhook="json")
    assert notifier.wait() == 1
    assert "$OPC_WEBHOOK is empty: export OPC_WEBHOOK=https://..." in "\n".join(notifier.said())
