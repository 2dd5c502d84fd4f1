"""The policy runner's own subscription to stops and releases, with a line in the robot's audit log for each release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node

from opc_ros.arms.safety import StopSwitch
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.statement import Statement
from opc_ros.deployment.stop_release import StopReleases
from opc_ros.ros.stop_listener import StopListener


class RunnerStop:
    """Whether a stop is in force for the runner's robot."""

    def __init__(
        self,
        node: Node,
        robot: str,
        keys: Path,
        audit_log: AuditLog,
        *,
        on_change: Callable[[], None],
        on_refusal: Callable[[str], None],
        now: Callable[[], int],
    ) -> None:
        self._robot = robot
        self._audit_log = audit_log
        self._on_change = on_change
        self._now = now
        self._switch = StopSwitch(robot)
        self._listener = StopListener(
            node,
            self._switch,
            StopReleases(keys, robot),
            on_press=lambda stamp_ns: on_change(),
            on_lift=self._on_lift,
            on_refusal=on_refusal,
            # The runner has several threads; stops and releases must be handled one by one, in the order they came.
            callback_group=MutuallyExclusiveCallbackGroup(),
        )

    @property
    def is_in_force(self) -> bool:
        return self._switch.reason is not None

    def close(self) -> None:
        self._listener.close()

    def _on_lift(self, statement: Statement) -> None:
        told = {"robot": self._robot, "person": statement.person, "stop_id": statement.body.stop_id}
        self._audit_log.append("stop_released", told | {"statement": statement.envelope}, self._now())
        self._on_change()
