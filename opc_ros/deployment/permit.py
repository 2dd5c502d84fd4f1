"""Permits: signed leave for one candidate to run some episodes on one robot, and their revocation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from opc_ros.config import parse_config
from opc_ros.deployment.audit_log import AuditHead
from opc_ros.deployment.keys import Signer, TrustedKeys, is_signed_by
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import PermitRefused

FORMAT = 1


class Rung(StrEnum):
    """Steps of the ladder a candidate climbs; each one risks more."""

    TWIN = "twin"
    REDUCED = "reduced"
    FULL = "full"

    @property
    def number(self) -> int:
        """Its place on the ladder, and in messages."""
        return list(Rung).index(self)


@dataclass(frozen=True, slots=True)
class Permit:
    """What one signature allows."""

    permit_id: str
    lease_id: str
    candidate_id: str  # digest of the bytes that may run
    robot: str
    rung: Rung
    episodes: int
    issued_ns: int
    expires_ns: int
    audit_head: AuditHead  # every robot thereby keeps a witness of the scheduler's audit log


@dataclass(frozen=True, slots=True)
class Revocations:
    """Permits that no longer count; a list with a higher serial replaces one with a lower."""

    serial: int
    permit_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signed:
    """A payload, the exact text that was signed, with its signature."""

    payload: str
    signature: bytes
    key_id: str


def sign_permit(permit: Permit, signer: Signer) -> Signed:
    return sign_statement("permit", dataclasses.asdict(permit) | {"rung": permit.rung.value}, signer)


def sign_revocations(revocations: Revocations, signer: Signer) -> Signed:
    return sign_statement("revocations", dataclasses.asdict(revocations), signer)


def open_permit(signed: Signed, keys: TrustedKeys) -> Permit:
    """The permit inside, if a trusted key signed exactly this text."""
    envelope = open_statement(signed, keys, "permit", _PermitEnvelope)
    plain = envelope.content
    if plain.rung not in [rung.value for rung in Rung]:
        raise PermitRefused(f"permit {plain.permit_id}: rung {plain.rung!r} is not known")
    if plain.episodes < 1 or plain.expires_ns <= plain.issued_ns:
        raise PermitRefused(f"permit {plain.permit_id}: allows {plain.episodes} episodes and ends before it begins")
    return Permit(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)} | {"rung": Rung(plain.rung)})


def open_revocations(signed: Signed, keys: TrustedKeys) -> Revocations:
    """The list inside, if a trusted key signed exactly this text."""
    return open_statement(signed, keys, "revocations", _RevocationsEnvelope).content


def to_text(signed: Signed) -> str:
    """One line for a file or a text message."""
    return canonical_json(
        {"payload": signed.payload, "signature": signed.signature.hex(), "key_id": signed.key_id},
        is_ascii=True,
    )


def from_text(text: str) -> Signed:
    """Read `to_text`'s line; nothing about it is trusted yet."""
    document = parse_json(text, where="signed text cannot be read", error=PermitRefused)
    try:
        return Signed(str(document["payload"]), bytes.fromhex(document["signature"]), str(document["key_id"]))
    except (ValueError, KeyError, TypeError) as error:
        raise PermitRefused(f"signed text cannot be read: {error!r}") from error


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


@dataclass(frozen=True, slots=True)
class _PermitEnvelope:
    kind: Literal["permit"]
    format: int
    key_id: str
    content: _PlainPermit


@dataclass(frozen=True, slots=True)
class _RevocationsEnvelope:
    kind: Literal["revocations"]
    format: int
    key_id: str
    content: Revocations


def sign_statement(kind: str, content: dict[str, Any], signer: Signer) -> Signed:
    """Sign a document that says of itself what it is and who signed it."""
    payload = canonical_json(
        {"kind": kind, "format": FORMAT, "key_id": signer.key_id, "content": content}, is_ascii=True
    )
    return Signed(payload, signer.sign(payload), signer.key_id)


def open_statement(signed: Signed, keys: TrustedKeys, kind: str, envelope_kind: Any) -> Any:
    """The document inside, if a trusted key signed exactly this text and it is what it should be."""
    if signed.key_id not in keys:
        raise PermitRefused(f"{kind}: signed with key {signed.key_id or '(none)'}, which this robot does not trust")
    if not is_signed_by(signed.key_id, signed.payload, signed.signature, keys):
        raise PermitRefused(f"{kind}: its signature does not fit its text: forged or damaged")
    where = f"{kind}: signed text is not as expected"
    document = parse_json(signed.payload, where=where, error=PermitRefused)
    envelope = parse_config(document, envelope_kind, where=where, error=PermitRefused)
    if envelope.format != FORMAT or envelope.key_id != signed.key_id:
        raise PermitRefused(f"{kind}: format {envelope.format}, key {envelope.key_id}: expected {FORMAT} and its own")
    return envelope
