"""Leases on one arm: what a commander presents to the arm's gateway, and how the gateway checks it."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from opc_ros.config import parse_config
from opc_ros.deployment.audit_log import AuditLog, find_audit_log
from opc_ros.deployment.behaviour_permit import open_behaviour_permit
from opc_ros.deployment.dsse import from_text, to_text
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import Signer, TextSigner, load_trusted_keys
from opc_ros.deployment.people import People, load_people
from opc_ros.deployment.permit import Permit, Rung, open_document, sign_document
from opc_ros.deployment.robot_results import ROBOT
from opc_ros.deployment.statement import RobotBody, check_statement, sign_statement
from opc_ros.deployment.verifier import PermitVerifier
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import OpcError, PermitRefused

DOCUMENT = "arm-lease"
SECOND_NS = 1_000_000_000
LONGEST_DRIVE_NS = 600 * SECOND_NS  # an operator has to sign again at least this often
MOST_CHARACTERS = 64_000
SPARE_BEGINNINGS = 5
REFUSALS_A_MINUTE = 60  # lines in the audit log, so that nobody can fill the disk with bad requests
REPEATS_A_MINUTE = 40  # how many of those may repeat earlier lines, so that a flood of one kind hides no other

Leave = Literal["permit", "behaviour", "drive"]


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """What a commander presents: its authorisation, and an answer to the gateway's challenge."""

    robot: str
    leave: Leave
    envelope: str = ""  # permit, behaviour permit or statement, as signed
    challenge: str = ""  # issued by the gateway; valid once
    candidate_id: str = ""  # digest of what the commander has loaded
    rung: str = ""
    policy: str = ""  # behaviour policy's name
    session: str = ""  # which start of the runner its permits are for
    started_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    content: LeaseRequest


@dataclass(frozen=True, slots=True)
class ArmLease:
    """What the gateway lets through, and until when."""

    holder: str  # the permit, or the person who signed the statement
    until_ns: int
    speed: float  # share of the arm's speeds
    permit: Permit | None = None


def write_lease_request(request: LeaseRequest, signer: TextSigner | None) -> str:
    """The request as one line of JSON, signed with the robot's key if it has one."""
    if signer is None:
        return canonical_json(dataclasses.asdict(request), is_ascii=True)
    return to_text(sign_document(DOCUMENT, dataclasses.asdict(request), signer))


def sign_drive(person: str, signer: TextSigner, robot: str, reason: str, now_ns: int) -> str:
    """An operator's signed permission to move an arm for the next few minutes."""
    body = RobotBody(robot=robot, reason=reason, until_ns=now_ns + LONGEST_DRIVE_NS)
    return sign_statement("drive", person, body, signer, now_ns)


class LeaseDesk:
    """Opens leases on one arm; every refusal becomes a line in the robot's audit log."""

    def __init__(
        self,
        robot: str,
        rungs: frozenset[Rung],
        keys: Path,
        state: Path,
        signer: Signer | None,
        *,
        reduced_speed: float = 1.0,
        overtime_s: float = 120.0,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`overtime_s` is how long an episode may outlast its permit.

        Spent and revoked permits are kept in the gateway's own journal, so that it need not trust any other process.
        """
        self._robot, self._rungs, self._keys, self._state = robot, rungs, keys, state
        self._reduced_speed, self._overtime_ns = reduced_speed, round(overtime_s * 1e9)
        self._now = now
        state.mkdir(parents=True, exist_ok=True)
        self._own = state / "gateway"
        self._own.mkdir(mode=0o700, exist_ok=True)
        self._journal = RobotJournal(self._own / "journal.db", now())
        self._audit_log = AuditLog(find_audit_log(state), signer)
        self._newest_start_ns = 0
        self._noted: deque[tuple[int, str, bool]] = deque()  # time, reason, whether it was a repeat

    def close(self) -> None:
        self._journal.close()

    def open(self, text: str, challenge: str) -> ArmLease:
        """Permission to move the arm for one episode; a refusal goes to the audit log and raises PermitRefused."""
        try:
            return self._open(self._read(text, challenge))
        except OpcError as error:
            self.note_refusal(str(error), text)
            raise PermitRefused(str(error)) from error

    def why_ended(self, lease: ArmLease) -> str:
        """Why nothing may pass under this lease any more; empty while commands may."""
        if lease.permit is not None and self._journal.is_revoked(lease.permit.permit_id):
            return f"permit {lease.permit.permit_id} was revoked"
        if self._now() >= lease.until_ns:
            return f"{lease.holder}: its time is over"
        return ""

    def accept_revocations(self, text: str) -> None:
        """Take a signed revocation list from the scheduler."""
        self._verifier("").accept_revocations(from_text(text))

    def note_refusal(self, reason: str, shown: str = "") -> None:
        """Write a line to the robot's audit log, up to a limit per minute."""
        now_ns, reason = self._now(), reason[:500]
        while self._noted and now_ns - self._noted[0][0] >= 60 * SECOND_NS:
            self._noted.popleft()
        is_repeat = any(noted == reason for _, noted, _ in self._noted)
        repeats = sum(was_repeat for _, _, was_repeat in self._noted)
        if len(self._noted) >= REFUSALS_A_MINUTE or (is_repeat and repeats >= REPEATS_A_MINUTE):
            return
        self._noted.append((now_ns, reason, is_repeat))
        body = {"robot": self._robot, "by": "gateway", "reason": reason}
        if shown:
            body["payload_sha256"] = hashlib.sha256(shown.encode()).hexdigest()
        self._audit_log.append("refused", body, now_ns)

    def _read(self, text: str, challenge: str) -> LeaseRequest:
        """The request, if it answers this gateway's challenge and is signed with the robot's own key."""
        if len(text) > MOST_CHARACTERS:
            raise PermitRefused(f"arm lease: {len(text)} characters, expected at most {MOST_CHARACTERS}")
        document = parse_json(text, where="arm lease", error=PermitRefused)
        people = load_people(self._keys)
        robot = people.people.get(self._robot)
        if robot is not None and ROBOT in robot.roles:
            if not isinstance(document, dict) or "payloadType" not in document:
                raise PermitRefused(f"arm lease: is not signed with the key of robot {self._robot}")
            request: LeaseRequest = open_document(from_text(text), robot.public_keys(), DOCUMENT, _Payload).content
        else:  # a new lab, where the robot has no key yet: file permissions have to do
            if isinstance(document, dict) and "payloadType" in document:
                document = parse_json(from_text(text).payload, where="arm lease", error=PermitRefused)["content"]
            request = parse_config(document, LeaseRequest, where="arm lease", error=PermitRefused)
        if request.robot != self._robot:
            raise PermitRefused(f"arm lease: is for robot {request.robot}, this is {self._robot}")
        if not challenge or request.challenge != challenge:
            raise PermitRefused("arm lease: answers a different challenge; it is a replay or out of date")
        return request

    def _open(self, request: LeaseRequest) -> ArmLease:
        ways: dict[str, Callable[[LeaseRequest], ArmLease]] = {
            "permit": self._open_by_permit,
            "behaviour": self._open_by_behaviour_permit,
            "drive": self._open_by_statement,
        }
        assert set(ways) == set(get_args(Leave))
        return ways[request.leave](request)

    def _open_by_permit(self, request: LeaseRequest) -> ArmLease:
        if not request.session or request.started_ns < self._newest_start_ns:
            raise PermitRefused("arm lease: comes from an earlier start of this robot's runner")
        if request.rung not in [rung.value for rung in Rung]:
            raise PermitRefused(f"arm lease: rung {request.rung!r} is not known")
        verifier = self._verifier(request.session)
        signed = from_text(request.envelope) if request.envelope else None
        permit = verifier.check(signed, request.candidate_id, Rung(request.rung))
        self._count_beginning(permit.permit_id, permit.episodes)
        self._newest_start_ns = request.started_ns
        share = self._reduced_speed if permit.rung is Rung.REDUCED else 1.0
        return ArmLease(f"permit {permit.permit_id}", permit.expires_ns + self._overtime_ns, share, permit)

    def _open_by_behaviour_permit(self, request: LeaseRequest) -> ArmLease:
        permit = open_behaviour_permit(
            from_text(request.envelope),
            self._people(),
            robot=self._robot,
            policy=request.policy,
            now_ns=self._now(),
        )
        self._count_beginning(permit.permit_id, permit.episodes)
        return ArmLease(permit.permit_id, permit.expires_ns + self._overtime_ns, permit.speed)

    def _open_by_statement(self, request: LeaseRequest) -> ArmLease:
        statement = check_statement(request.envelope, ("drive",), self._people(), self._now(), self._spend_nonce)
        body: RobotBody = statement.body
        if body.robot != self._robot:
            raise PermitRefused(f"drive by {statement.person}: is for robot {body.robot!r}, this is {self._robot}")
        if not self._now() < body.until_ns <= statement.issued_ns + LONGEST_DRIVE_NS:
            raise PermitRefused(
                f"drive by {statement.person}: must end within {LONGEST_DRIVE_NS // SECOND_NS} s of its signing"
            )
        return ArmLease(f"drive by {statement.person}", body.until_ns, 1.0)

    def _count_beginning(self, permit_id: str, episodes: int) -> None:
        """Bound how often episodes are begun under a permit.

        The budget itself is spent by the program that plays. The bound is higher, because an episode begins again when
        the arm was not ready, and when `JudgedArm` learns what empty fingers look like.
        """
        most = 2 * episodes + SPARE_BEGINNINGS
        if not self._spend(f"begin {permit_id}", most):
            raise PermitRefused(f"permit {permit_id}: {most} episodes have begun under it, which is the most it allows")

    def _people(self) -> People:
        """Loaded for every check, so that removing a person takes effect at once."""
        return load_people(self._keys)

    def _spend_nonce(self, nonce: str, expires_ns: int) -> bool:
        """Kept on disk, so that a statement used before a restart cannot be used again after it."""
        return self._spend(f"drive {nonce}", 1)

    def _spend(self, what: str, most: int) -> bool:
        return self._journal.spend(what, "", f"{what} {{slot}}", most, self._now()) is not None

    def _verifier(self, session: str) -> PermitVerifier:
        return PermitVerifier(
            self._robot,
            self._rungs,
            lambda: load_trusted_keys(self._keys),
            self._journal,
            _Silent(),
            self._now,
            session,
        )


class _Silent(AuditLog):
    """An audit log that writes nothing: the desk records its refusals itself, once each."""

    def __init__(self) -> None:
        """Opens no file."""

    def append(self, kind: str, body: dict[str, Any], at_ns: int) -> Any:
        return None
