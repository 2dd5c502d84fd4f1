"""Stop arms, or release them, over ROS, and hear from each that it has obeyed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import rclpy
from opc_interfaces.msg import RobotStatus
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Bool

from opc_ros.ros import topics
from opc_ros.ros.stop_channel import TOPIC

PULSE_S = 0.05
STATUS = "opc_interfaces/msg/RobotStatus"


class StopCall:
    """A node that presses stops and stays until those who hold the arms have said that they know."""

    def __init__(self) -> None:
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node(
            "stop_call", context=self._context, use_global_arguments=False, start_parameter_services=False
        )
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._states: dict[str, dict[str, int]] = {}  # robot -> topic -> state last said there
        self._switches: dict[str, object] = {}

    def __enter__(self) -> StopCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def tell(self, robots: Iterable[str], *, is_stopped: bool, timeout_s: float) -> tuple[list[str], list[str]]:
        """Who has confirmed and who has not; without names, every robot that is heard meanwhile."""
        named = tuple(robots)
        deadline = time.monotonic() + timeout_s
        for robot in named:
            self._press(robot, is_stopped)
        while time.monotonic() < deadline:
            self._look(named)
            for robot in self._states:
                self._press(robot, is_stopped)
            self._executor.spin_once(timeout_sec=PULSE_S)
            known = set(named) or set(self._states)
            # Without names, whoever is slow to be discovered must still be stopped: the whole time is used.
            if named and all(self._has_obeyed(robot, is_stopped) for robot in known):
                break
        known = set(named) or set(self._states)
        confirmed = sorted(robot for robot in known if self._has_obeyed(robot, is_stopped))
        return confirmed, sorted(known - set(confirmed))

    def _look(self, named: tuple[str, ...]) -> None:
        for topic, types in self._node.get_topic_names_and_types():
            robot = topic.split("/")[1]
            if types[0] != STATUS or (named and robot not in named) or topic in self._states.get(robot, {}):
                continue
            self._states.setdefault(robot, {})[topic] = -1
            self._node.create_subscription(RobotStatus, topic, partial(self._hear, robot, topic), topics.LATEST)

    def _hear(self, robot: str, topic: str, status: RobotStatus) -> None:
        self._states[robot][topic] = int(status.state)

    def _press(self, robot: str, is_stopped: bool) -> None:
        if robot not in self._switches:
            publisher = self._node.create_publisher(Bool, f"/{robot}/{TOPIC}", topics.LATEST)
            publisher.publish(Bool(data=is_stopped))
            self._switches[robot] = publisher

    def _has_obeyed(self, robot: str, is_stopped: bool) -> bool:
        """Everyone who speaks for the robot says the same."""
        said = [state for state in self._states.get(robot, {}).values() if state != -1]
        return bool(said) and all((state == RobotStatus.STOPPED) == is_stopped for state in said)
