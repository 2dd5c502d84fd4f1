"""Robots that take every lease and work on it until it is revoked, all in one process and without an arm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import RobotStatus
from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.node import Node
from std_msgs.msg import String

from opc_ros.deployment.dsse import from_text
from opc_ros.deployment.keys import Signer, TrustedKeys, load_trusted_keys
from opc_ros.deployment.permit import open_revocations
from opc_ros.deployment.robot_results import begin_session, sign_result
from opc_ros.deployment.signing import load_machine_key
from opc_ros.ros import topics
from opc_ros.ros.steady import create_steady_timer

Robot = TypeVar("Robot", bound="IdleRobot")


class IdleRobot:
    """One policy runner as seen by scheduler and halt; with `is_dead` it neither sends nor receives anything."""

    def __init__(self, node: Node, name: str, keys: TrustedKeys, signer: Signer) -> None:
        self._signer = signer
        _, self._session = begin_session(name, signer, time.time_ns())
        self.name = name
        self.is_dead = False
        self.serial = 0
        self.revoked_s: float | None = None  # monotonic, when its permit was revoked
        self.taken: list[str] = []
        self._keys = keys
        self._goal: ServerGoalHandle | None = None
        self._status = node.create_publisher(RobotStatus, f"/{name}/robot/status", topics.LATEST)
        node.create_subscription(String, "/deployment/revocations", self._on_revocations, topics.LATEST)
        self._server = ActionServer(
            node,
            RunEpisodes,
            f"/{name}/run_episodes",
            execute_callback=self._end,
            handle_accepted_callback=self._take,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
        )
        create_steady_timer(node, 0.1, self._tell)

    def close(self) -> None:
        self._server.destroy()

    @property
    def permit_id(self) -> str:
        return str(self._goal.request.permit.permit_id) if self._goal is not None else ""

    def _take(self, goal: ServerGoalHandle) -> None:
        if self.is_dead:
            return
        if goal.request.lease_id in self.taken:
            goal.execute()  # it was given back, and the response got lost
            return
        self.taken.append(goal.request.lease_id)
        self._goal = goal

    def _end(self, goal: ServerGoalHandle) -> RunEpisodes.Result:
        goal.abort()
        end, lease_id = RunEpisodes.Result.BROKEN_OFF, goal.request.lease_id
        envelope = sign_result(self.name, lease_id, end, "revoked", (), self._signer, time.time_ns())
        return RunEpisodes.Result(end=end, message="revoked", envelope=envelope)

    def _on_revocations(self, msg: String) -> None:
        if self.is_dead:
            return
        revocations = open_revocations(from_text(msg.data), self._keys)
        self.serial = max(self.serial, revocations.serial)
        if self._goal is not None and self.permit_id in revocations.permit_ids:
            self.revoked_s = time.monotonic()
            goal, self._goal = self._goal, None
            goal.execute()
        self._tell()

    def _tell(self) -> None:
        if not self.is_dead:
            state = RobotStatus.RUNNING if self._goal is not None else RobotStatus.IDLE
            self._status.publish(
                RobotStatus(
                    robot=self.name,
                    state=state,
                    permit_id=self.permit_id,
                    revocation_serial=self.serial,
                    session=self._session,
                )
            )


def make_robots(
    node: Node,
    names: Iterable[str],
    lab: Path,
    kind: Callable[..., Robot] = IdleRobot,  # type: ignore[assignment]
) -> dict[str, Robot]:
    """Robots of a lab on disk, each with the key it has there."""
    keys = load_trusted_keys(lab / "deployment" / "keys")
    made = {}
    for name in names:
        signer = load_machine_key(lab / name / "keys", name)
        assert signer is not None
        made[name] = kind(node, name, keys, signer)
    return made
