"""Stop arms, or release them, over ROS, and wait for each to confirm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

from opc_interfaces.msg import RobotStatus
from rclpy.publisher import Publisher
from std_msgs.msg import Bool, String

from opc_ros.bringup.lab_names import in_lab, lab_of, read_namespace, robot_of
from opc_ros.deployment.signing import SignsAs
from opc_ros.deployment.stop_release import sign_release
from opc_ros.ros import topics
from opc_ros.ros.brief_node import BriefNode
from opc_ros.ros.stop_listener import RELEASE, STOP, STOP_ID, ObeyedStop

UNHEARD = -1  # state of a publisher that has said nothing yet
DISCOVERED_S = 4.0  # discovery is complete if it found nothing new for this long: DDS repeats itself every 3 s
AGAIN_S = 1.0  # sign a release again after this: one that arrives before its stop has no effect
MOST_RELEASES = 16  # no robot has more nodes than this that obey its stops
STATUS = "opc_interfaces/msg/RobotStatus"
STATUS_BELOW = 2  # levels below the robot's name: arm_guard/status, robot/status, twin/status


class StopCall:
    """A node that sends stops, and stays until the nodes that hold the arms have confirmed."""

    def __init__(self) -> None:
        self._brief = BriefNode("stop_call", namespace=read_namespace())
        self._node = self._brief.node
        self._states: dict[str, dict[str, int]] = {}  # robot -> topic -> last state published there
        self._switches: dict[str, object] = {}
        self._stops: dict[str, set[int]] = {}  # robot -> stops that some node obeys
        self._obeyed: dict[str, dict[tuple[str, str], int]] = {}  # robot -> node and listener -> the stop it obeys
        self._signed: dict[str, dict[int, float]] = {}  # robot -> stops for which a release was signed, and when
        self._releases: dict[str, Publisher] = {}
        self._other_labs: set[str] = set()

    def __enter__(self) -> StopCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._brief.close()

    @property
    def other_labs(self) -> tuple[str, ...]:
        """Namespaces of other labs in this domain whose robots were heard and left alone; "" for a lab without one."""
        return tuple(sorted(self._other_labs))

    def stop(self, robots: Iterable[str], *, timeout_s: float) -> tuple[list[str], list[str]]:
        """Stop the named robots, or every robot that is heard meanwhile; returns who has confirmed and who has not."""
        named = tuple(robots)
        deadline_s = time.monotonic() + timeout_s
        for robot in named:
            self._press(robot)
        while time.monotonic() < deadline_s:
            self._look(named)
            for robot in self._states:
                self._press(robot)
            self._brief.pulse()
            # Without names, use the whole time: a robot that is discovered late must be stopped, too.
            if named and all(self._has_obeyed(robot, is_stopped=True) for robot in named):
                break
        return self._split(named or self._states, is_stopped=True)

    def release(self, robots: Iterable[str], signs: SignsAs, *, timeout_s: float) -> tuple[list[str], list[str]]:
        """Sign a release for every stop heard; returns the robots that are free now and those still stopped."""
        named = tuple(robots)
        began_ns, began_s = time.time_ns(), time.monotonic()
        for robot in named:
            self._node.create_subscription(
                String, in_lab(f"/{robot}/{STOP_ID}"), partial(self._hear_id, robot), topics.STOPS
            )
            self._releases[robot] = self._node.create_publisher(String, in_lab(f"/{robot}/{RELEASE}"), topics.RELEASES)
            self._stops[robot], self._signed[robot], self._obeyed[robot] = set(), {}, {}
        found, found_s = self._found(named), began_s
        while time.monotonic() - began_s < timeout_s:
            self._look(named)
            self._brief.pulse()
            for robot in named:
                self._sign(robot, signs, began_ns)
            if (now_found := self._found(named)) != found:
                found, found_s = now_found, time.monotonic()
            is_settled = time.monotonic() - found_s > DISCOVERED_S
            if is_settled and all(self._is_free(robot) for robot in named):
                break
        return self._split(named, is_stopped=False)

    def _found(self, named: tuple[str, ...]) -> list[tuple[int, ...]]:
        """How many state publishers, stop id publishers and release subscribers are known so far for each robot."""
        return [
            (
                len(self._states.get(robot, {})),
                self._node.count_publishers(in_lab(f"/{robot}/{STOP_ID}")),
                self._node.count_subscribers(in_lab(f"/{robot}/{RELEASE}")),
            )
            for robot in named
        ]

    def _hear_id(self, robot: str, msg: String) -> None:
        if (said := ObeyedStop.from_msg(msg)) is not None:
            self._obeyed[robot][said.node, said.listener] = said.stop_ns
            if said.stop_ns:
                self._stops[robot].add(said.stop_ns)

    def _is_free(self, robot: str) -> bool:
        """Whether all state publishers say that the robot is not stopped, and so do all nodes that listen to stops.

        A node that has only just been discovered has said nothing yet, so this waits for it.
        """
        present = Counter(
            f"{each.node_namespace.rstrip('/')}/{each.node_name}"
            for each in self._node.get_publishers_info_by_topic(in_lab(f"/{robot}/{STOP_ID}"))
        )
        free = Counter(node for (node, _), stop_ns in self._obeyed[robot].items() if not stop_ns)
        is_said = all(free[node] >= count for node, count in present.items())
        return is_said and self._has_obeyed(robot, is_stopped=False)

    def _sign(self, robot: str, signs: SignsAs, began_ns: int) -> None:
        """Sign a release for each stop that some node obeys, but not for stops pressed after this call began."""
        signed, now_s = self._signed[robot], time.monotonic()
        for stop_ns in sorted(self._stops[robot], reverse=True):
            is_new = began_ns < stop_ns <= time.time_ns()  # a stop from the future is not new but has a wrong clock
            if stop_ns in signed:
                is_due = now_s - signed[stop_ns] > AGAIN_S and not self._is_free(robot)
            else:
                is_due = not is_new and len(signed) < MOST_RELEASES
            if is_due:
                signed[stop_ns] = now_s
                self._releases[robot].publish(String(data=sign_release(signs, robot, stop_ns, time.time_ns())))

    def _split(self, robots: Iterable[str], *, is_stopped: bool) -> tuple[list[str], list[str]]:
        known = set(robots)
        confirmed = sorted(
            robot
            for robot in known
            if (self._has_obeyed(robot, is_stopped=True) if is_stopped else self._is_free(robot))
        )
        return confirmed, sorted(known - set(confirmed))

    def _look(self, named: tuple[str, ...]) -> None:
        for topic, types in self._node.get_topic_names_and_types():
            if types[0] != STATUS:
                continue
            robot = robot_of(topic, STATUS_BELOW)
            if not robot:
                self._other_labs.add(lab_of(topic, STATUS_BELOW))
            if not robot or (named and robot not in named) or topic in self._states.get(robot, {}):
                continue
            self._states.setdefault(robot, {})[topic] = UNHEARD
            self._node.create_subscription(RobotStatus, topic, partial(self._hear, robot, topic), topics.LATEST)

    def _hear(self, robot: str, topic: str, status: RobotStatus) -> None:
        self._states[robot][topic] = int(status.state)

    def _press(self, robot: str) -> None:
        if robot not in self._switches:
            publisher = self._node.create_publisher(Bool, in_lab(f"/{robot}/{STOP}"), topics.LATEST)
            publisher.publish(Bool(data=True))
            self._switches[robot] = publisher

    def _has_obeyed(self, robot: str, *, is_stopped: bool) -> bool:
        """Whether all state publishers agree; a publisher that is present but has not been heard counts as not yet."""
        said = [
            state
            for topic, state in self._states.get(robot, {}).items()
            if state != UNHEARD or self._node.count_publishers(topic)
        ]
        return bool(said) and all(state != UNHEARD and (state == RobotStatus.STOPPED) == is_stopped for state in said)
