"""Requests from a robot's machine to the lab's, signed with the robot's key."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

from opc_ros.deployment.dsse import from_text, payload_type, to_text
from opc_ros.deployment.keys import TextSigner
from opc_ros.deployment.people import People
from opc_ros.deployment.permit import open_document, sign_document
from opc_ros.deployment.robot_results import ROBOT
from opc_ros.errors import DeploymentError

KIND = "robot-call"
HEADER = "X-Opc-Call"  # carries the signed envelope
LARGEST_BODY = 4 << 20
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """One request; somebody may overhear and replay it, so doing it twice must change nothing."""

    robot: str
    method: str
    path: str
    body_sha256: str


@dataclass(frozen=True, slots=True)
class _CallPayload:
    format: int
    content: Call


def describe_call(robot: str, method: str, path: str, body: bytes) -> Call:
    return Call(robot, method, path, hashlib.sha256(body).hexdigest())


def sign_call(call: Call, signer: TextSigner) -> str:
    return to_text(sign_document(KIND, dataclasses.asdict(call), signer))


def open_call(envelope: str, method: str, path: str, body: bytes, people: People) -> str:
    """The robot that signed exactly this request."""
    signed = from_text(envelope)
    owner = people.owner(signed.key_id) or ""
    person = people.people.get(owner)
    if person is None or ROBOT not in person.roles or signed.payload_type != payload_type(KIND):
        raise DeploymentError("the request is not signed by a robot that is known here: `opc people add`")
    call: Call = open_document(signed, person.public_keys(), KIND, _CallPayload).content
    if call != describe_call(owner, method, path, body):
        raise DeploymentError(f"robot {owner}: signed a different request")
    return owner
