"""Signed statements by people: a kind, a body, a nonce and an expiry, checked before anything acts on them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from opc_ros.config import parse_config
from opc_ros.deployment.dsse import Signed, from_text, is_authentic, payload_type, sign_payload, to_text
from opc_ros.deployment.keys import BoundSigner, TextSigner
from opc_ros.deployment.people import People, Role
from opc_ros.deployment.seen import Seen
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import StatementRefused

Kind = Literal["request", "approve", "reject", "override", "resume", "accept_clock", "release_stop", "relabel", "drive"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TYPE = payload_type("statement")
FORMAT = 1
SECOND_NS = 1_000_000_000
LIFE_NS = 300 * SECOND_NS  # from signing to use; a statement that was used remains evidence forever
CLOCK_SKEW_NS = 5 * SECOND_NS
MOST_CHARACTERS = 64_000
HOW_TO_SIGN = "sign it with `opc deploy`, which uses your key file or ssh agent; `opc people add` makes a key known"


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request for robot time for a candidate."""

    candidate_id: str
    robots: tuple[str, ...] = ()
    episodes: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class DecisionBody:
    """A decision on a request."""

    request_id: str
    reason: str = ""
    seen: Seen | None = None  # for an approval: the findings shown; None: signed with a version that showed none


@dataclass(frozen=True, slots=True)
class RobotBody:
    """A statement about one robot, or about all if `robot` is empty."""

    robot: str = ""
    reason: str = ""
    until_ns: int = 0  # for "drive": until when the operator may move the arm
    stop_id: str = ""  # for "release_stop": which stop to lift


@dataclass(frozen=True, slots=True)
class LabelBody:
    """A label: whether an episode succeeded."""

    episode_id: str
    label: Literal["success", "failure", "none", "excluded"]
    note: str = ""


Body = RequestBody | DecisionBody | RobotBody | LabelBody
BODIES: Mapping[Kind, type[Body]] = {
    "request": RequestBody,
    "approve": DecisionBody,
    "reject": DecisionBody,
    "override": DecisionBody,
    "resume": RobotBody,
    "accept_clock": RobotBody,
    "release_stop": RobotBody,
    "drive": RobotBody,
    "relabel": LabelBody,
}
ROLE_FOR: Mapping[Kind, Role] = {
    "request": "requester",
    "approve": "approver",
    "reject": "approver",
    "override": "approver",
    "resume": "operator",
    "accept_clock": "operator",
    "release_stop": "operator",
    "drive": "operator",
    "relabel": "labeller",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """What was said; `envelope` is the proof."""

    kind: Kind
    person: str
    body: Any
    nonce: str
    issued_ns: int
    expires_ns: int
    envelope: str = ""
    deployment: str = ""  # id of the scheduler's key it is meant for; empty: from a version that did not name one


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    kind: Kind
    person: str
    body: dict[str, Any]
    nonce: str
    issued_ns: int
    expires_ns: int
    deployment: str = ""


def prepare_statement(kind: Kind, person: str, body: Body, now_ns: int, deployment: str = "") -> str:
    """The DSSE payload of type `TYPE` that a person signs, for one deployment."""
    nonce = secrets.token_hex(16)
    content = _Payload(FORMAT, kind, person, asdict(body), nonce, now_ns, now_ns + LIFE_NS, deployment)
    return canonical_json(asdict(content), is_ascii=True)


def sign_statement(kind: Kind, person: str, body: Body, signer: TextSigner, now_ns: int) -> str:
    """A signed statement as one line of text, for the deployment that the signer is bound to."""
    deployment = signer.deployment if isinstance(signer, BoundSigner) else ""
    return to_text(sign_payload(TYPE, prepare_statement(kind, person, body, now_ns, deployment), signer))


def read_statement(envelope: str, people: People) -> Statement:
    """Read a statement that its person really signed and has the role for, however old it is."""
    if not envelope.strip():
        raise StatementRefused(f"nobody has signed this: {HOW_TO_SIGN}")
    if len(envelope) > MOST_CHARACTERS:
        raise StatementRefused(f"statement has {len(envelope)} characters, expected at most {MOST_CHARACTERS}")
    try:
        signed = from_text(envelope)
    except Exception as error:
        raise StatementRefused(f"statement cannot be read: {error}") from error
    if signed.payload_type != TYPE:
        raise StatementRefused(f"statement is of type {signed.payload_type!r}, expected {TYPE}")
    return _open(signed, envelope, people)


def check_statement(
    envelope: str, kinds: tuple[Kind, ...], people: People, now_ns: int, spend_nonce: Callable[[str, int], bool]
) -> Statement:
    """Check a statement before acting on it now: properly signed, fresh, and never used before."""
    statement = read_statement(envelope, people)
    if statement.kind not in kinds:
        raise StatementRefused(f"statement says {statement.kind}, expected {' or '.join(kinds)}")
    if statement.issued_ns > now_ns + CLOCK_SKEW_NS:
        ahead_s = (statement.issued_ns - now_ns) // SECOND_NS
        raise StatementRefused(f"{statement.kind} by {statement.person}: signed {ahead_s} s from now: set the clocks")
    if not now_ns < statement.expires_ns <= statement.issued_ns + LIFE_NS:
        age_s = (now_ns - statement.issued_ns) // SECOND_NS
        raise StatementRefused(f"{statement.kind} by {statement.person}: signed {age_s} s ago, too old: sign it again")
    if people.deployments and statement.deployment not in people.deployments:
        meant = f"for deployment {statement.deployment}" if statement.deployment else "for no deployment by name"
        raise StatementRefused(
            f"{statement.kind} by {statement.person}: signed {meant}, this is {people.deployments[0]}: "
            "sign it again with the keys folder of this lab"
        )
    if not spend_nonce(statement.nonce, statement.expires_ns):
        raise StatementRefused(f"{statement.kind} by {statement.person}: was acted on already: sign a new one")
    return statement


def _open(signed: Signed, envelope: str, people: People) -> Statement:
    where = "statement is not as expected"
    document = parse_json(signed.payload, where=where, error=StatementRefused)
    payload = parse_config(document, _Payload, where=where, error=StatementRefused)
    person = people.people.get(payload.person)
    if person is None:
        raise StatementRefused(
            f"{payload.kind}: nobody here is called {payload.person!r}: `opc people add {payload.person} --key FILE`"
        )
    keys = person.public_keys()
    if not any(is_authentic(signed, key_id, keys) for key_id in keys):
        raise StatementRefused(f"{payload.kind}: is not signed by {payload.person}: forged, or with another key")
    role = ROLE_FOR[payload.kind]
    if role not in person.roles:
        raise StatementRefused(
            f"{payload.kind}: {payload.person} is not {'an' if role[0] in 'ao' else 'a'} {role}; "
            f"whoever keeps the keys may `opc people add {payload.person} --role {role}`"
        )
    if payload.format != FORMAT or len(payload.nonce) < 16 or len(payload.nonce) > 128:
        raise StatementRefused(f"{payload.kind}: format {payload.format}, expected {FORMAT} with a nonce")
    body = parse_config(payload.body, BODIES[payload.kind], where=f"{payload.kind}", error=StatementRefused)
    times = (payload.issued_ns, payload.expires_ns)
    return Statement(payload.kind, payload.person, body, payload.nonce, *times, envelope, payload.deployment)


@dataclass(slots=True)
class NonceMemory:
    """Remembers used nonces for as long as they could be replayed; for programs without a database."""

    now: Callable[[], int]
    _until: dict[str, int] = field(default_factory=dict)

    def spend(self, nonce: str, expires_ns: int) -> bool:
        now_ns = self.now()
        self._until = {each: until for each, until in self._until.items() if until + CLOCK_SKEW_NS > now_ns}
        if nonce in self._until:
            return False
        self._until[nonce] = expires_ns
        return True
