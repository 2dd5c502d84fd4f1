"""The last status of an arm's guard, and whether it lets the arm move."""

from __future__ import annotations

import time
from collections.abc import Callable

from opc_interfaces.msg import RobotStatus
from rclpy.node import Node

from opc_ros.arms.safety import Watchdog
from opc_ros.ros import topics

JUST_S = 0.03  # a guard that has held the arm reports it at once

STATES = {
    RobotStatus.OFFLINE: "offline",
    RobotStatus.IDLE: "idle",
    RobotStatus.RUNNING: "watching",
    RobotStatus.HOLDING: "holding",
    RobotStatus.STOPPED: "stopped",
    RobotStatus.FAULT: "in fault",
}


class GuardWord:
    """Listens to one guard; without a topic there is no guard, and the arm may move."""

    def __init__(self, node: Node, topic: str, timeout_s: float, on_news: Callable[[], None]) -> None:
        self._topic = topic
        self._watchdog = Watchdog("word of the arm's guard", timeout_s, time.monotonic)
        self._on_news = on_news
        self._said: RobotStatus | None = None
        self._said_s = 0.0
        if topic:
            node.create_subscription(RobotStatus, topic, self._hear, topics.LATEST)

    @property
    def allows_motion(self) -> bool:
        """Whether it has said, within its timeout, that it hears us and can hold the arm."""
        if not self._topic:
            return True
        is_fresh = self._watchdog.is_awake and not self._watchdog.is_expired
        return is_fresh and self._said is not None and self._said.state == RobotStatus.RUNNING

    @property
    def has_just_allowed(self) -> bool:
        """Whether it has said so just now, so that it cannot have held the arm since."""
        return self.allows_motion and (not self._topic or time.monotonic() - self._said_s < JUST_S)

    @property
    def is_silent(self) -> bool:
        """Whether it has fallen silent, or was never heard."""
        return not self._watchdog.is_awake or self._watchdog.is_expired

    @property
    def reason(self) -> str:
        return f" ({self._said.reason})" if self._said is not None and self._said.reason else ""

    @property
    def complaint(self) -> str:
        """Why the arm may not move now."""
        if self._said is None or self._watchdog.is_expired:
            return self._watchdog.describe()
        return f"the arm's guard is {STATES.get(self._said.state, 'in an unknown state')}{self.reason}"

    def _hear(self, status: RobotStatus) -> None:
        self._watchdog.feed()
        self._said, self._said_s = status, time.monotonic()
        self._on_news()
