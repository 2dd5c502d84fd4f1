"""Permits: signed permission for one candidate to run some episodes on one robot, and their revocation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opc_ros.config import parse_config
from opc_ros.deployment.audit_log import AuditHead
from opc_ros.deployment.dsse import Signed, is_authentic, payload_type, sign_payload
from opc_ros.deployment.keys import Signer, TextSigner, TrustedKeys
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import ConfigError, PermitRefused

FORMAT = 2  # 2: DSSE envelopes


class Rung(StrEnum):
    """Steps of the ladder that a candidate climbs; each is riskier than the one before."""

    TWIN = "twin"
    REDUCED = "reduced"
    FULL = "full"

    @property
    def number(self) -> int:
        """Its position on the ladder, as used in messages."""
        return list(Rung).index(self)


def parse_rungs(text: str) -> frozenset[Rung]:
    """Parse the names of rungs, separated by commas."""
    names = [name.strip() for name in text.split(",")]
    if not all(name in [rung.value for rung in Rung] for name in names):
        raise ConfigError(f"rungs is {text!r}, expected some of {', '.join(Rung)}, separated by commas")
    return frozenset(Rung(name) for name in names)


@dataclass(frozen=True, slots=True)
class Permit:
    """What one permit allows."""

    permit_id: str
    lease_id: str
    candidate_id: str  # digest of the files that may run
    robot: str
    rung: Rung
    episodes: int
    issued_ns: int
    expires_ns: int
    audit_head: AuditHead  # so that every robot witnesses the scheduler's audit log
    session: str = ""  # which start of the robot's runner it is valid for


@dataclass(frozen=True, slots=True)
class Revocations:
    """Permits that are no longer valid; a list replaces those with a lower serial."""

    serial: int
    permit_ids: tuple[str, ...]


def sign_permit(permit: Permit, signer: Signer) -> Signed:
    return sign_document("permit", dataclasses.asdict(permit) | {"rung": permit.rung.value}, signer)


def sign_revocations(revocations: Revocations, signer: Signer) -> Signed:
    return sign_document("revocations", dataclasses.asdict(revocations), signer)


def open_permit(signed: Signed, keys: TrustedKeys) -> Permit:
    """The permit inside, if a trusted key signed exactly this text."""
    plain = open_document(signed, keys, "permit", _PermitPayload).content
    if plain.rung not in [rung.value for rung in Rung]:
        raise PermitRefused(f"permit {plain.permit_id}: rung {plain.rung!r} is not known")
    if plain.episodes < 1 or plain.expires_ns <= plain.issued_ns:
        raise PermitRefused(f"permit {plain.permit_id}: allows {plain.episodes} episodes and ends before it begins")
    return Permit(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)} | {"rung": Rung(plain.rung)})


def open_revocations(signed: Signed, keys: TrustedKeys) -> Revocations:
    """The list inside, if a trusted key signed exactly this text."""
    revocations: Revocations = open_document(signed, keys, "revocations", _RevocationsPayload).content
    return revocations


@dataclass(frozen=True, slots=True)
class _PlainPermit:
    permit_id: str
    lease_id: str
    candidate_id: str
    robot: str
    rung: str
    episodes: int
    issued_ns: int
    expires_ns: int
    audit_head: AuditHead
    session: str


@dataclass(frozen=True, slots=True)
class _PermitPayload:
    format: int
    content: _PlainPermit


@dataclass(frozen=True, slots=True)
class _RevocationsPayload:
    format: int
    content: Revocations


def sign_document(kind: str, content: dict[str, Any], signer: TextSigner) -> Signed:
    """Sign a document, with a type that keeps it from passing for another kind."""
    payload = canonical_json({"format": FORMAT, "content": content}, is_ascii=True)
    return sign_payload(payload_type(kind), payload, signer)


def open_document(signed: Signed, keys: TrustedKeys, kind: str, payload_kind: Any) -> Any:
    """The document inside, if a trusted key signed exactly this text and it is of the expected kind."""
    if signed.key_id not in keys:
        raise PermitRefused(f"{kind}: signed with key {signed.key_id or '(none)'}, which this robot does not trust")
    if signed.payload_type != payload_type(kind):
        raise PermitRefused(f"{kind}: got a document of type {signed.payload_type!r}, expected {payload_type(kind)}")
    if not is_authentic(signed, signed.key_id, keys):
        raise PermitRefused(f"{kind}: its signature does not fit its text: forged or damaged")
    where = f"{kind}: signed text is not as expected"
    document = parse_json(signed.payload, where=where, error=PermitRefused)
    opened = parse_config(document, payload_kind, where=where, error=PermitRefused)
    if opened.format != FORMAT:
        raise PermitRefused(f"{kind}: format {opened.format}, expected {FORMAT}")
    return opened
