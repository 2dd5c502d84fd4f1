"""The scheduler's halt, with its own node, thread and database connection, so that a busy scheduler cannot delay it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from opc_interfaces.srv import HaltDeployment
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import String

from opc_ros.bringup.lab_names import in_lab, read_namespace
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.halting import halt, obey_left_halts
from opc_ros.deployment.revoking import revocation_list
from opc_ros.errors import OpcError
from opc_ros.ros import topics
from opc_ros.ros.node_health import NodeHealth, spin_until_closed
from opc_ros.ros.services import create_service
from opc_ros.ros.steady import create_steady_timer

LOOK_S = 0.05  # how long a halt that a person wrote into the queue may go unnoticed
REVOCATIONS = "/deployment/revocations"


class HaltService:
    """Offers `/deployment/halt`, and tells robots about every newly revoked permit."""

    def __init__(self, folder: DeploymentFolder, now: Callable[[], int]) -> None:
        self._now = now
        self._said_serial = -1
        self._held = contextlib.ExitStack()
        self._queue, self._signer = self._held.enter_context(folder.open())
        self._node = Node(
            "scheduler_halt", namespace=read_namespace(), use_global_arguments=False, start_parameter_services=False
        )
        self._held.callback(self._node.destroy_node)
        self._revocations = self._node.create_publisher(String, in_lab(REVOCATIONS), topics.LATEST)
        create_service(self._node, HaltDeployment, in_lab("/deployment/halt"), self._on_halt)
        create_steady_timer(self._node, LOOK_S, self._tell_news)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._held.callback(self._executor.shutdown)
        self._is_closing = threading.Event()
        health = NodeHealth(self._node)
        spin = partial(spin_until_closed, self._executor, health, self._is_closing)
        self._thread = threading.Thread(target=spin, name="halt service", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(timeout=5.0)
        self._held.close()

    def _on_halt(self, request: Any, response: Any) -> Any:
        words = (request.robot, request.person, request.reason, self._now())
        try:
            halted = halt(self._queue, *words)
            response.robots, response.awaited = list(halted.robots), list(halted.awaited)
            response.revocation_serial = halted.serial
            response.success = True
            response.message = f"halted: {', '.join(response.robots) or 'no robot'}"
        except (OpcError, sqlite3.Error) as error:
            response.success, response.message = False, str(error)
        self._tell_news()
        return response

    def _tell_news(self) -> None:
        try:
            obey_left_halts(self._queue, self._now())
            serial = self._queue.fact("revocation_serial")
            if serial != self._said_serial:
                self._revocations.publish(String(data=to_text(revocation_list(self._queue, self._signer, self._now()))))
                self._said_serial = serial
        except (OpcError, sqlite3.Error) as error:
            self._node.get_logger().error(f"the queue cannot be read: {error}", throttle_duration_sec=5.0)
