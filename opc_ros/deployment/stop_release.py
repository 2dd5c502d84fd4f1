"""Whether a stop may be lifted: only by a release that an operator signed for this robot and this stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from opc_ros.deployment.people import load_people
from opc_ros.deployment.signing import SignsAs
from opc_ros.deployment.statement import NonceMemory, RobotBody, Statement, check_statement, sign_statement
from opc_ros.errors import StatementRefused

HOW_TO_RELEASE = "`opc release {robot}` signs for an operator"


class StopReleases:
    """Checks releases against the people of a keys folder, which is read again for each one."""

    def __init__(self, keys: Path | None, robot: str, now: Callable[[], int] = time.time_ns) -> None:
        """Without a folder no person is known, so no release counts."""
        self._keys = keys
        self._robot = robot
        self._now = now
        self._nonces = NonceMemory(now)

    def check(self, envelope: str) -> Statement:
        """Check a release for this robot; raises StatementRefused. The release itself names the stop it lifts."""
        if self._keys is None:
            raise StatementRefused(f"robot {self._robot}: knows no people, so nobody can release it: set `keys`")
        statement = check_statement(
            envelope, ("release_stop",), load_people(self._keys), self._now(), self._nonces.spend
        )
        body: RobotBody = statement.body
        if body.robot != self._robot:
            raise StatementRefused(f"release by {statement.person}: is for robot {body.robot!r}, not {self._robot}")
        if not (body.stop_id.isascii() and body.stop_id.isdigit()):
            raise StatementRefused(f"release by {statement.person}: names stop {body.stop_id!r}, expected a number")
        return statement


def sign_release(signs: SignsAs, robot: str, stop_ns: int, now_ns: int) -> str:
    """Sign a release of the stop that a robot entered at `stop_ns`, as one line of text."""
    body = RobotBody(robot=robot, stop_id=str(stop_ns))
    return sign_statement("release_stop", signs.person, body, signs.signer, now_ns)
