"""Somebody at the socket of an arm's gateway who sends whatever they like."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable

import numpy as np
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.trajectory import plan_joints
from opc_ros.deployment.arm_lease import LeaseRequest, sign_drive, write_lease_request
from opc_ros.deployment.dsse import Signed, to_text
from opc_ros.deployment.keys import Signer
from opc_ros.deployment.signing import find_signer, load_machine_key
from opc_ros.ros import lease_socket as wire
from opc_ros.ros.joint_messages import trajectory_to_msg
from tests.ros.attack_rig import Rig
from tests.ros.twin_rig import PATIENCE_S, ROBOT, SETTINGS, Watcher


class Commander:
    """Somebody at the gateway's socket who sends whatever they like."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.end = wire.connect(rig.socket_folder)
        self.end.settimeout(PATIENCE_S)
        self.challenge = self.expect(wire.CHALLENGE).decode()
        self._number = 0

    def close(self) -> None:
        self.end.close()

    def expect(self, *kinds: bytes) -> bytes:
        """The next response of one of these kinds."""
        while message := self.end.recv(wire.LARGEST):
            if message[:1] in kinds:
                return message[1:]
        raise AssertionError("the gateway hung up")

    def show(self, request: LeaseRequest, signer: Signer | None) -> str:
        """Why no lease was given; empty if one was."""
        return self.say_lease(write_lease_request(dataclasses.replace(request, challenge=self.challenge), signer))

    def say_lease(self, text: str) -> str:
        self.end.send(wire.LEASE + text.encode())
        answer = json.loads(self.expect(wire.OPENED))
        self.challenge = answer["challenge"]
        return str(answer["reason"])

    def drive(self) -> None:
        """A lease signed by ada, who is an operator."""
        assert self.show(drive_request(self._rig), robots_key(self._rig)) == ""

    def command(self, kind: bytes, body: bytes = b"", *, age_s: float = 0.0) -> bytes:
        """The gateway's complaint; empty if it accepts the command."""
        self._number += 1
        sent_ns = time.monotonic_ns() - round(age_s * 1e9)
        self.end.send(kind + wire.COMMAND.pack(self._number, sent_ns) + body)
        answer = self.end.recv(wire.LARGEST)
        return b"" if answer[:1] == wire.TAKEN else answer[1:]

    def beat_until(self, watcher: Watcher, is_true: Callable[[], bool]) -> None:
        """Heartbeats, repeatedly: one that is sent before its listener is discovered is lost."""

        def beat_and_look() -> bool:
            self.end.send(wire.BEAT + wire.COMMAND.pack(0, time.monotonic_ns()))
            return is_true()

        watcher.wait_until(beat_and_look)

    def follow(self, msg: JointTrajectory, **how: float) -> str:
        return self.command(wire.TRAJECTORY, serialize_message(msg), **how).decode()


def robots_key(rig: Rig) -> Signer:
    signer = load_machine_key(rig.folder / ROBOT / "keys", ROBOT)
    assert signer is not None
    return signer


def drive_request(rig: Rig, robot: str = ROBOT, now_ns: int | None = None) -> LeaseRequest:
    signs = find_signer(rig.folder / "deployment" / "keys", rig.folder / "deployment" / "keys" / "ada.person.pem")
    now_ns = time.time_ns() if now_ns is None else now_ns
    return LeaseRequest(ROBOT, "drive", sign_drive(signs.person, signs.signer, robot, "a test", now_ns))


def permit_request(rig: Rig, signed: Signed | None, **changes: object) -> LeaseRequest:
    envelope = to_text(signed) if signed else ""
    session = json.loads(signed.payload)["content"]["session"] if signed else rig.session()
    request = LeaseRequest(
        ROBOT, "permit", envelope, candidate_id=rig.candidate.id, rung="reduced", session=session, started_ns=1
    )
    return dataclasses.replace(request, **changes)  # type: ignore[arg-type]


def turn(rig: Rig, by_rad: float = 0.5, speed: float = 0.1) -> JointTrajectory:
    """The first joint, from its current angle."""
    here = np.array(rig.watcher.joints[-1].position)
    there = here.copy()
    there[0] += by_rad if here[0] < 0 else -by_rad
    limits = dataclasses.replace(SETTINGS.motion, speed_fraction=speed)
    return trajectory_to_msg(
        plan_joints(dataclasses.replace(SETTINGS, motion=limits).joint_limits(), here, there), SETTINGS.joint_names
    )


def wait_for_line(rig: Rig, count: int, words: str) -> None:
    def told() -> bool:
        return any(line.kind == "refused" and words in line.body["reason"] for line in rig.robots_lines()[count:])

    rig.watcher.wait_until(told)


def wait_until_it_moves(rig: Rig) -> None:
    rig.watcher.wait_until(lambda: max(map(abs, rig.watcher.joints[-1].velocity)) > 1e-2)
