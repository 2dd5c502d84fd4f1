"""A process that echoes every message, answers every service and carries out every action of opc_interfaces."""

from __future__ import annotations

import contextlib
from typing import Any

import opc_interfaces.action
import opc_interfaces.msg
import opc_interfaces.srv
import rclpy
from rclpy.action import ActionServer
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from tests.interfaces.sample import fill


def kinds(module: Any) -> dict[str, type]:
    """The interfaces of a module by name, without the request, response and event classes they consist of."""
    return {n: k for n, k in vars(module).items() if isinstance(k, type) and "_" not in n}


def echo(node: Node, name: str, kind: type) -> None:
    publisher = node.create_publisher(kind, f"{name}/back", 10)
    node.create_subscription(kind, f"{name}/there", publisher.publish, 10)


def answer(node: Node, name: str, kind: Any) -> None:
    def handle(request: Any, response: Any) -> Any:
        return fill(kind.Response) if request == fill(kind.Request) else response

    node.create_service(kind, name, handle)


def carry_out(node: Node, name: str, kind: Any) -> None:
    def execute(goal: Any) -> Any:
        goal.publish_feedback(fill(kind.Feedback))
        if goal.request != fill(kind.Goal):
            goal.abort()
            return kind.Result()
        goal.succeed()
        return fill(kind.Result)

    ActionServer(node, kind, name, execute)


def main() -> None:
    rclpy.init()
    node = Node("answering_peer")
    for name, kind in kinds(opc_interfaces.msg).items():
        echo(node, name, kind)
    for name, kind in kinds(opc_interfaces.srv).items():
        answer(node, name, kind)
    for name, kind in kinds(opc_interfaces.action).items():
        carry_out(node, name, kind)
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


if __name__ == "__main__":
    main()
