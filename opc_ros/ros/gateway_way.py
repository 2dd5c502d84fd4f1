"""The path to an arm through its gateway: a socket on which each episode begins with a permission that is checked."""

from __future__ import annotations

import dataclasses
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from rclpy.node import Node
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.deployment.arm_lease import LeaseRequest, write_lease_request
from opc_ros.deployment.keys import TextSigner
from opc_ros.errors import ArmError, ArmLost, OpcError, PermitRefused, SetupError
from opc_ros.ros import lease_socket as wire
from opc_ros.ros.arm_link import WayMaker

LOOK_S = 0.1
ANSWER_S = 10.0  # a gateway on a busy machine may take this long to check a permit

Ask = Callable[[], LeaseRequest]  # what to show; the challenge is filled in later


def make_gateway_way(folder: Path | str, ask: Ask, signer: TextSigner | None) -> WayMaker:
    """A factory for RosArm; `ask` returns what to show to the gateway for each episode, signed with the robot's key."""
    return partial(GatewayWay, folder=Path(folder), ask=ask, signer=signer)


class GatewayWay:
    """One connection to a gateway; if it is lost, the next episode reconnects."""

    def __init__(
        self,
        node: Node,
        settings: ArmSettings,
        complain: Callable[[str], None],
        *,
        folder: Path,
        ask: Ask,
        signer: TextSigner | None,
    ) -> None:
        self._settings = settings
        self._folder, self._ask, self._signer = folder, ask, signer
        self._socket: socket.socket | None = None
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._challenge = ""
        self._answers: dict[bytes, bytes] = {}
        self._number = self._taken = 0
        self._is_leased = False
        self._ended = ""

    def begin(self) -> None:
        """Show a permission for one episode; raises PermitRefused with the gateway's reason."""
        self._ended, self._is_leased = "", False
        self._connect()
        request = dataclasses.replace(self._ask(), challenge=self._challenge)
        text = write_lease_request(request, self._signer)
        answer = json.loads(self._exchange(wire.LEASE + text.encode(), wire.OPENED, ANSWER_S))
        self._challenge = str(answer["challenge"])
        if answer["reason"]:
            raise PermitRefused(str(answer["reason"]))
        self._is_leased = True

    def find_missing(self) -> list[str]:
        return [] if self._is_leased else [self._ended or "the arm's gateway refused"]

    def why_lost(self) -> str:
        return self._ended

    def beat(self) -> None:
        if self._is_leased:
            self._command(wire.BEAT)

    def send(self, msg: JointTrajectory) -> None:
        if self._is_leased:
            self._command(wire.TRAJECTORY, serialize_message(msg))

    def grip(self, aperture_m: float) -> None:
        if self._is_leased:
            self._command(wire.GRIPPER, struct.pack("<d", aperture_m))

    def lay_out(self, seed: int, timeout_s: float) -> None:
        robot = self._settings.robot
        number = self._command(wire.LAY_OUT, struct.pack("<Qd", seed, timeout_s))
        reason = self._wait(wire.LAID_OUT, timeout_s + 1.0).decode() if number else self._ended
        if reason:
            raise ArmError(f"arm {robot}: {reason}")

    def rest(self) -> None:
        if self._is_leased:
            self._command(wire.END)
            self._is_leased = False

    def close(self) -> None:
        """Close the connection after the gateway has taken the last command."""
        if self._is_leased and self._number:
            last = self._command(wire.END)
            self._is_leased = False
            with self._changed:
                self._changed.wait_for(lambda: self._taken >= last or bool(self._ended), 0.5)
        self._let_go("closed")

    def _connect(self) -> None:
        if self._socket is not None:
            return
        opened = self._find_gateway()
        with self._changed:
            self._answers.clear()
        self._socket = opened
        threading.Thread(target=self._listen, args=(opened,), name="arm gateway", daemon=True).start()
        self._challenge = self._wait(wire.CHALLENGE, ANSWER_S).decode()

    def _find_gateway(self) -> socket.socket:
        """Wait for the gateway, which may still be starting."""
        deadline_s = time.monotonic() + self._settings.connect_timeout_s
        while True:
            try:
                return wire.connect(self._folder)
            except SetupError as error:
                if time.monotonic() >= deadline_s:
                    raise ArmLost(f"arm {self._settings.robot}: {error}") from error
            time.sleep(LOOK_S)

    def _exchange(self, message: bytes, answer: bytes, timeout_s: float) -> bytes:
        with self._changed:
            self._answers.pop(answer, None)
        self._say(message)
        return self._wait(answer, timeout_s)

    def _command(self, kind: bytes, body: bytes = b"") -> int:
        """Send a command, and return its number; 0 if the connection is gone."""
        with self._sending:
            self._number += 1
            number = self._number
            header = wire.COMMAND.pack(number, time.monotonic_ns())
            try:
                self._say(kind + header + body)
            except OpcError as error:
                self._end(str(error))
                return 0
        return number

    def _say(self, message: bytes) -> None:
        if self._socket is None:
            raise ArmLost(f"arm {self._settings.robot}: its gateway is gone")
        try:
            self._socket.send(message)
        except OSError as error:
            raise ArmLost(f"arm {self._settings.robot}: its gateway is gone: {error.strerror or error}") from error

    def _wait(self, kind: bytes, timeout_s: float) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: kind in self._answers or bool(self._ended), timeout_s)
            if kind in self._answers:
                return self._answers.pop(kind)
        reason = self._ended or f"did not answer within {timeout_s:g} s"
        raise ArmLost(f"arm {self._settings.robot}: its gateway: {reason}")

    def _listen(self, opened: socket.socket) -> None:
        while True:
            try:
                message = opened.recv(wire.LARGEST)
            except OSError:
                message = b""
            if not message:
                break
            self._hear(message[:1], message[1:])
        if self._socket is opened:
            self._let_go("its gateway has ended")

    def _hear(self, kind: bytes, body: bytes) -> None:
        if kind == wire.TAKEN:
            with self._changed:
                self._taken = wire.COMMAND.unpack(body)[0]
                self._changed.notify_all()
        elif kind in (wire.REFUSED, wire.ENDED):
            self._end(body.decode(errors="replace"))
        else:
            with self._changed:
                self._answers[kind] = body
                self._changed.notify_all()

    def _end(self, reason: str) -> None:
        with self._changed:
            if self._is_leased or not self._ended:
                self._is_leased, self._ended = False, reason
            self._changed.notify_all()

    def _let_go(self, reason: str) -> None:
        opened, self._socket = self._socket, None
        self._end(reason)
        if opened is not None:
            # a thread may be blocked on it, and only this wakes it
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
