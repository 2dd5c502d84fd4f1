"""Notifies people: watches scheduler and arms, and sends what needs attention to a webhook or the desktop."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from opc_interfaces.msg import SafetyEvent
from opc_interfaces.srv import GetDeployment

from opc_ros.bringup.lab_names import in_lab, robot_of
from opc_ros.config import described
from opc_ros.errors import ConfigError
from opc_ros.notices.channels import Channel, Desktop, Webhook
from opc_ros.notices.delivery import Delivery
from opc_ros.notices.notice import Notice, NoticeWatch
from opc_ros.ros import topics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import KINDS

EVENT_BELOW = 2  # levels of safety/event below the robot's name
ADDRESS = "OPC_WEBHOOK"  # an environment variable, because whoever knows the address can post there


@dataclass(frozen=True, slots=True)
class NotifierSettings:
    """Parameters of the notifier."""

    webhook: Literal["none", "json", "slack"] = described("none", "what is posted to the address in $OPC_WEBHOOK")
    desktop: bool = described(False, "whether to show notifications on this machine's desktop")
    lab: str = described("lab", "name of this lab in notices")
    look_s: float = described(1.0, "how often the scheduler is polled", low=0.1, high=3600.0)


class NotifierNode(OpcNode[NotifierSettings]):
    """Notifies people of what is waiting for them."""

    NAME = "notifier"
    SETTINGS = NotifierSettings

    def setup(self, settings: NotifierSettings) -> None:
        channels = _open_channels(settings)
        self._look_s = settings.look_s
        self._watch = NoticeWatch(time.monotonic)
        self._delivery = Delivery(channels, self.get_logger().warning)
        self.held.callback(self._delivery.close)
        self._asking = threading.Lock()
        self._status = self.create_client(GetDeployment, in_lab("/deployment/status"))
        self.held.callback(self.destroy_client, self._status)
        self._followed: dict[str, Any] = {}
        self.get_logger().info(f"sends notices to {' and '.join(channel.describe() for channel in channels)}")

    def start(self) -> None:
        self._timer = create_steady_timer(self, self._look_s, self._look)
        self._look()

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        for subscription in self._followed.values():
            self.destroy_subscription(subscription)
        self._followed.clear()

    def _look(self) -> None:
        for topic, types in self.get_topic_names_and_types():
            is_told = "opc_interfaces/msg/SafetyEvent" in types and robot_of(topic, EVENT_BELOW)
            if is_told and topic not in self._followed:
                self._followed[topic] = self.create_subscription(SafetyEvent, topic, self._on_event, topics.RECORDED)
        if self._status.service_is_ready() and self._asking.acquire(blocking=False):
            self._status.call_async(GetDeployment.Request()).add_done_callback(self._on_deployment)

    def _on_deployment(self, future: Any) -> None:
        self._asking.release()
        answer = future.result()
        if answer is not None and answer.success:
            for notice in self._watch.see_deployment(json.loads(answer.status_json)):
                self._tell(notice)

    def _on_event(self, msg: SafetyEvent) -> None:
        for notice in self._watch.see_event(msg.robot, KINDS.get(msg.kind, ""), msg.detail):
            self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        self.get_logger().info(f"{notice.title}: {notice.text}")
        self._delivery.put(notice)


def _open_channels(settings: NotifierSettings) -> list[Channel]:
    channels: list[Channel] = []
    if settings.webhook != "none":
        address = os.environ.get(ADDRESS, "")
        if not address:
            raise ConfigError(f"webhook is {settings.webhook}, but ${ADDRESS} is empty: export {ADDRESS}=https://...")
        channels.append(Webhook(address, lab=settings.lab, is_slack=settings.webhook == "slack"))
    if settings.desktop:
        channels.append(Desktop())
    if not channels:
        raise ConfigError("no channel for notices: set webhook to json or slack, or desktop to true")
    return channels


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(NotifierNode, argv)


if __name__ == "__main__":
    sys.exit(main())
