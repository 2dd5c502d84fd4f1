"""What a robot signs: that it has started, and the results of a lease; the scheduler counts nothing else."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from opc_ros.deployment.audit_log import AuditHead
from opc_ros.deployment.dsse import from_text, is_authentic, payload_type, to_text
from opc_ros.deployment.journal import RunEpisode
from opc_ros.deployment.keys import TextSigner
from opc_ros.deployment.people import People
from opc_ros.deployment.permit import open_document, sign_document
from opc_ros.errors import DeploymentError

ROBOT = "robot"  # the role of a robot's key
RESULT, SESSION = "robot-result", "robot-session"
MOST_EPISODES = 100_000
NOTHING_SEEN = AuditHead()
DIGEST = re.compile(r"[0-9a-f]{64}|")
Outcome = Literal["success", "failure", "aborted"]


@dataclass(frozen=True, slots=True)
class Session:
    """One start of a robot's runner; a permit is for one start, so restoring an old journal cannot spend it twice."""

    robot: str
    session: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The result of one episode."""

    episode_id: str
    outcome: Outcome
    safety_events: int
    recording: str = ""  # sha256 of its committed file; empty: not reported by the recorder


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """The results of a lease so far."""

    robot: str
    lease_id: str
    end: int  # as in RunEpisodes.Result
    message: str
    episodes: tuple[EpisodeResult, ...]
    signed_ns: int
    witness: AuditHead = NOTHING_SEEN  # longest head of the scheduler's audit log it has seen, hereby cosigned


@dataclass(frozen=True, slots=True)
class _SessionPayload:
    format: int
    content: Session


@dataclass(frozen=True, slots=True)
class _ResultPayload:
    format: int
    content: LeaseResult


def begin_session(robot: str, signer: TextSigner, now_ns: int) -> tuple[Session, str]:
    """Make a new session and its signed envelope."""
    session = Session(robot, secrets.token_hex(16), now_ns)
    return session, to_text(sign_document(SESSION, dataclasses.asdict(session), signer))


def sign_result(
    robot: str,
    lease_id: str,
    end: int,
    message: str,
    episodes: Sequence[RunEpisode],
    signer: TextSigner,
    now_ns: int,
    witness: AuditHead = NOTHING_SEEN,
) -> str:
    """Sign a lease's episodes as the robot's journal has them; an unfinished episode counts as aborted.

    The robot also signs the head of the scheduler's audit log that it saw last.
    """
    results = [
        {
            "episode_id": each.episode_id,
            "outcome": each.outcome or "aborted",
            "safety_events": each.safety_events,
            "recording": each.recording,
        }
        for each in episodes
    ]
    content = {"robot": robot, "lease_id": lease_id, "end": end, "message": message[:2000], "episodes": results}
    content |= {"signed_ns": now_ns, "witness": dataclasses.asdict(witness)}
    return to_text(sign_document(RESULT, content, signer))


def open_session(envelope: str, robot: str, people: People) -> Session:
    """The session that a robot signed, if its key is known here."""
    session: Session = _open(envelope, robot, people, SESSION, _SessionPayload)
    return session


def open_result(envelope: str, robot: str, lease_id: str, people: People) -> LeaseResult:
    """The signed result from the robot that holds the lease."""
    result: LeaseResult = _open(envelope, robot, people, RESULT, _ResultPayload)
    if result.lease_id != lease_id:
        raise DeploymentError(f"robot {robot}: its result is about another lease")
    is_odd = any(each.safety_events < 0 or not DIGEST.fullmatch(each.recording) for each in result.episodes)
    if len(result.episodes) > MOST_EPISODES or is_odd:
        raise DeploymentError(f"robot {robot}: its result is not valid")
    return result


def _open(envelope: str, robot: str, people: People, kind: str, payload_kind: Any) -> Any:
    person = people.people.get(robot)
    if person is None or ROBOT not in person.roles:
        raise DeploymentError(
            f"robot {robot} has no key that is known here: `opc keys create robots/{robot}/keys --for {robot}` there, "
            f"`opc people add {robot} --key {robot}.pub --role robot` here"
        )
    if not envelope:
        raise DeploymentError(f"robot {robot}: its report is not signed, so it is not counted")
    signed, keys = from_text(envelope), person.public_keys()
    if signed.payload_type != payload_type(kind) or not any(is_authentic(signed, key_id, keys) for key_id in keys):
        raise DeploymentError(f"robot {robot}: its report is not signed with its key, so it is not counted")
    opened = open_document(signed, keys, kind, payload_kind).content
    if opened.robot != robot:
        raise DeploymentError(f"robot {robot}: signed as {opened.robot}")
    return opened
