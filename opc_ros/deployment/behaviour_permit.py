"""Permits to move one arm without a score, signed by a person: how a lab records before it has rankings."""

from __future__ import annotations

import dataclasses
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.deployment.dsse import Signed, from_text, to_text
from opc_ros.deployment.keys import TextSigner
from opc_ros.deployment.people import People
from opc_ros.deployment.permit import open_document, sign_document
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import PermitRefused

KIND = "behaviour-permit"
FILE_NAME = "behaviour.permit"
ID = re.compile(r"behaviour-[0-9a-f]{16}")  # used as a file name
LARGEST_SPEED = 0.5  # what runs under such a permit has no score


@dataclass(frozen=True, slots=True)
class BehaviourPermit:
    """What an operator allows."""

    permit_id: str
    person: str
    robot: str
    policy: str  # name of a behaviour policy, or teleoperation
    episodes: int
    speed: float  # share of the arm's speeds
    issued_ns: int
    expires_ns: int


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    content: BehaviourPermit


def issue_behaviour_permit(
    signer: TextSigner,
    *,
    person: str,
    robot: str,
    policy: str,
    episodes: int,
    speed: float,
    now_ns: int,
    hours: float,
) -> Signed:
    """Sign a permit for some episodes; nonsensical terms are refused before signing."""
    permit = BehaviourPermit(
        permit_id=f"behaviour-{uuid.uuid4().hex[:16]}",
        person=person,
        robot=robot,
        policy=policy,
        episodes=episodes,
        speed=speed,
        issued_ns=now_ns,
        expires_ns=now_ns + round(hours * 3600 * 1e9),
    )
    _refuse_nonsense(permit)
    return sign_document(KIND, dataclasses.asdict(permit), signer)


def open_behaviour_permit(signed: Signed, people: People, *, robot: str, policy: str, now_ns: int) -> BehaviourPermit:
    """The permit inside, if it is still valid and an operator signed it for this robot and policy."""
    operators = {name: each.public_keys() for name, each in people.people.items() if "operator" in each.roles}
    if not operators:
        raise PermitRefused("behaviour permit: nobody is an operator here; `opc people add NAME --role operator`")
    permit: BehaviourPermit = open_document(signed, people.keys_of("operator"), KIND, _Payload).content
    _refuse_nonsense(permit)
    # It must be signed by the operator it names, not just by any operator.
    open_document(signed, operators.get(permit.person, {}), KIND, _Payload)
    for what, got, expected in (("robot", permit.robot, robot), ("policy", permit.policy, policy)):
        if got != expected:
            raise PermitRefused(f"{permit.permit_id}: is for {what} {got}, expected {expected}")
    if not permit.issued_ns - 60_000_000_000 <= now_ns < permit.expires_ns:
        raise PermitRefused(f"{permit.permit_id}: {_when(permit, now_ns)}; sign a new one with `opc permit`")
    return permit


def read_signed(path: Path) -> Signed:
    """Read a signed permit from its file."""
    return from_text(read_bytes(path, error=PermitRefused).decode("utf-8", errors="replace"))


def write_signed(path: Path, signed: Signed) -> None:
    replace_file(path, to_text(signed).encode())


class EpisodeBudget:
    """Counts the episodes begun under a permit, in a file, so that a restart does not give them back."""

    def __init__(self, folder: Path, permit: BehaviourPermit) -> None:
        self._permit = permit
        self._path = folder / f"{permit.permit_id}.json"
        self._begun = self._read()

    @property
    def left(self) -> int:
        return self._permit.episodes - self._begun

    def spend(self) -> None:
        """Count an episode before it begins."""
        if self.left < 1:
            raise PermitRefused(f"{self._permit.permit_id}: all {self._permit.episodes} episodes have been used")
        self._begun += 1
        replace_file(self._path, canonical_json({"begun": self._begun}).encode())

    def _read(self) -> int:
        if not self._path.exists():
            return 0
        where = str(self._path)
        return parse_config(parse_json(read_bytes(self._path), where=where), _Begun, where=where).begun


@dataclass(frozen=True, slots=True)
class _Begun:
    begun: int


def _refuse_nonsense(permit: BehaviourPermit) -> None:
    if permit.episodes < 1 or permit.expires_ns <= permit.issued_ns:
        raise PermitRefused(f"{permit.permit_id}: {permit.episodes} episodes, or ends before it begins")
    if not 0.0 < permit.speed <= LARGEST_SPEED:
        raise PermitRefused(f"{permit.permit_id}: speed {permit.speed:g}, expected above 0 and at most {LARGEST_SPEED}")
    if not ID.fullmatch(permit.permit_id):
        raise PermitRefused(f"behaviour permit: id {permit.permit_id!r}, expected behaviour- and 16 hexadecimal digits")
    if not permit.person or not permit.robot or not permit.policy:
        raise PermitRefused(f"{permit.permit_id}: expected a person, a robot and a policy")


def _when(permit: BehaviourPermit, now_ns: int) -> str:
    if now_ns >= permit.expires_ns:
        return f"ended {(now_ns - permit.expires_ns) / 3.6e12:.1f} hours ago"
    return f"begins in {(permit.issued_ns - now_ns) / 3.6e12:.1f} hours: do the clocks differ?"
