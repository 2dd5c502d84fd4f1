"""Tell robots about a halt directly, without the scheduler, and wait for each to confirm that it has obeyed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from opc_interfaces.msg import RobotStatus
from std_msgs.msg import String

from opc_ros.bringup.lab_names import in_lab, read_namespace
from opc_ros.ros import topics
from opc_ros.ros.brief_node import BriefNode
from opc_ros.ros.halt_service import REVOCATIONS


class HaltCall:
    """Talks to the robots directly: a halt must not depend on a scheduler that is dead or hangs."""

    def __init__(self, robots: Iterable[str]) -> None:
        self._robots = frozenset(robots)
        self._heard: dict[str, RobotStatus] = {}
        self._brief = BriefNode("halt", namespace=read_namespace())
        self._node = self._brief.node
        self._revocations = self._node.create_publisher(String, in_lab(REVOCATIONS), topics.LATEST)
        for robot in self._robots:
            topic = in_lab(f"/{robot}/robot/status")
            self._node.create_subscription(RobotStatus, topic, partial(self._hear, robot), topics.LATEST)

    def __enter__(self) -> HaltCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._brief.close()

    def tell(self, revocations: str) -> None:
        """Publish a signed list; robots that join later receive it too."""
        self._revocations.publish(String(data=revocations))

    def wait(
        self, serial: int, revoked: frozenset[str], given_back: Callable[[], Iterable[str]], timeout_s: float
    ) -> frozenset[str]:
        """Robots that confirm the list and run no permit on it; `given_back` returns others known to have stopped."""
        deadline = time.monotonic() + timeout_s
        confirmed: frozenset[str] = frozenset()
        while not self._robots <= confirmed and time.monotonic() < deadline:
            self._brief.pulse()
            said = {
                robot
                for robot, status in self._heard.items()
                if status.revocation_serial >= serial and status.permit_id not in revoked
            }
            confirmed = frozenset(said | (self._robots & set(given_back())))
        return confirmed

    def _hear(self, robot: str, status: RobotStatus) -> None:
        self._heard[robot] = status
