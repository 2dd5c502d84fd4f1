"""Listens for stops, which anybody may send, and for releases, which an operator must sign."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import Bool, String

from opc_ros.arms.safety import StopSwitch
from opc_ros.deployment.statement import Statement
from opc_ros.deployment.stop_release import HOW_TO_RELEASE, StopReleases
from opc_ros.errors import OpcError
from opc_ros.ros import topics

STOP = "stop"  # std_msgs/Bool, latched: true stops; false does nothing
RELEASE = "release"  # std_msgs/String: a signed statement
STOP_ID = "stop_id"  # std_msgs/String, latched: an ObeyedStop
REFUSALS_EVERY_S = 3.0  # so that a flood of messages fills neither the audit log nor the episodes


@dataclass(frozen=True, slots=True)
class ObeyedStop:
    """The newest stop that a node obeys, identified by the time of its message; 0 if it obeys none."""

    node: str  # including its namespace
    listener: str  # distinguishes nodes of the same name
    stop_ns: int

    @classmethod
    def from_msg(cls, msg: String) -> ObeyedStop | None:
        """Parse a message on the topic; None if it is not from one of our nodes."""
        words = msg.data.split(" ")
        if len(words) != 3 or not words[0].startswith("/") or not re.fullmatch("[0-9]{1,19}", words[2]):
            return None
        return cls(words[0], words[1], int(words[2]))

    def to_msg(self) -> String:
        return String(data=f"{self.node} {self.listener} {self.stop_ns}")


class StopListener:
    """Presses and lifts one switch by messages on the topics `stop` and `release`.

    It publishes on `stop_id` which stop a release has to name.
    """

    def __init__(
        self,
        node: Node,
        switch: StopSwitch,
        releases: StopReleases,
        *,
        on_press: Callable[[int], None],
        on_lift: Callable[[Statement], None],
        on_refusal: Callable[[str], None],
        is_own: Callable[[int], bool] = lambda stamp_ns: False,
        callback_group: CallbackGroup | None = None,
    ) -> None:
        """`on_press` gets the stop's timestamp; `is_own` tells from it whether this node sent the stop itself."""
        self._node = node
        self._switch = switch
        self._releases = releases
        self._on_press = on_press
        self._on_lift = on_lift
        self._on_refusal = on_refusal
        self._is_own = is_own
        self._refused_s = -REFUSALS_EVERY_S
        self._name = uuid.uuid4().hex
        self._ids = node.create_publisher(String, STOP_ID, topics.LATEST)
        # In this order, because it is the order in which simultaneous messages are handled.
        self._subscriptions = [
            node.create_subscription(kind, topic, hear, topics.STOPS, callback_group=callback_group)
            for kind, topic, hear in ((Bool, STOP, self._on_stop), (String, RELEASE, self._on_release))
        ]
        self.tell_id()  # whoever releases waits for all listeners present, so each must report its state

    def close(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._ids)

    def tell_id(self) -> None:
        """Publish which stop is in force, for whoever wants to release it."""
        stop_ns = 0 if self._switch.reason is None else self._switch.pressed_ns
        self._ids.publish(ObeyedStop(self._node.get_fully_qualified_name(), self._name, stop_ns).to_msg())

    def refuse(self, reason: str) -> None:
        """Refuse a release from somebody who may not release."""
        self._node.get_logger().warning(f"release refused: {reason}")
        now_s = time.monotonic()
        if now_s - self._refused_s >= REFUSALS_EVERY_S:
            self._refused_s = now_s
            self._on_refusal(reason)

    def _on_stop(self, msg: Bool, info: dict[str, Any]) -> None:
        stamp_ns = int(info["source_timestamp"])
        if self._is_own(stamp_ns):
            return
        if not msg.data:
            if self._switch.reason is not None:
                self.refuse(f"`false` on the topic stop lifts nothing; {HOW_TO_RELEASE.format(robot=self._switch.arm)}")
            return
        if self._switch.press("stopped by the topic stop", stamp_ns):
            self._on_press(stamp_ns)
        self.tell_id()

    def _on_release(self, msg: String) -> None:
        if self._switch.reason is None:
            return
        try:
            statement = self._releases.check(msg.data)
        except OpcError as error:
            self.refuse(str(error))
            return
        if self._switch.lift(int(statement.body.stop_id)):
            self._on_lift(statement)
            self.tell_id()
        else:  # meant for another listener that last heard a different stop, or for an older stop
            self._node.get_logger().info(
                f"{statement.person} releases stop {statement.body.stop_id}; a newer one stays"
            )
