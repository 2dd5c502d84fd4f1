"""An approver's signature on the lab's history: without it the gate ignores results from before this deployment."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from opc_ros.deployment.decision import RealResult
from opc_ros.deployment.dsse import from_text, is_authentic, payload_type, to_text
from opc_ros.deployment.history import parse_history
from opc_ros.deployment.people import People, Role, find_deployments, load_people
from opc_ros.deployment.permit import open_document, sign_document
from opc_ros.deployment.signing import SignsAs
from opc_ros.documents import read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import DeploymentError

APPROVER: Role = "approver"
KIND = "history"
HOW_TO_SIGN = "review it, and sign it with `opc deploy sign-history`"


@dataclass(frozen=True, slots=True)
class HistorySeal:
    """The content that the approver signs."""

    sha256: str  # of the file
    deployment: str  # id of the scheduler's key
    signed_ns: int


@dataclass(frozen=True, slots=True)
class _Payload:
    format: int
    content: HistorySeal


def seal_path(history: Path) -> Path:
    return history.with_name(f"{history.name}.dsse.json")


def sign_history(history: Path, keys: Path, signs: SignsAs, now_ns: int) -> Path:
    """Sign the results as they are, for the deployment that owns these keys, and return the signature's file."""
    person = load_people(keys).people.get(signs.person)
    if person is None or APPROVER not in person.roles:
        raise DeploymentError(
            f"{history}: {signs.person} is not an approver: `opc people add {signs.person} --role approver`"
        )
    data = read_bytes(history, error=DeploymentError)
    parse_history(data, history)
    deployments = find_deployments(keys)
    seal = HistorySeal(hashlib.sha256(data).hexdigest(), deployments[0] if deployments else "", now_ns)
    replace_file(seal_path(history), to_text(sign_document(KIND, asdict(seal), signs.signer)).encode() + b"\n")
    return seal_path(history)


@dataclass(frozen=True, slots=True)
class SignedHistory:
    """Results by candidate id, and when an approver signed them; 0 if there are none."""

    results: dict[str, RealResult]
    signed_ns: int = 0


def read_signed_history(history: Path, keys: Path, since_ns: int = 0) -> SignedHistory:
    """Read results that an approver signed, unless newer ones counted here before; a lab need not have any."""
    if not history.is_file():
        if since_ns:
            raise DeploymentError(f"{history}: counted here before and is gone: put it back, or sign an empty one")
        return SignedHistory({})
    data = read_bytes(history, error=DeploymentError)
    if not seal_path(history).is_file():
        raise DeploymentError(f"{history}: nobody has signed these results: {HOW_TO_SIGN}")
    envelope = read_bytes(seal_path(history), error=DeploymentError).decode("utf-8", errors="replace")
    seal = _open(history, envelope, load_people(keys))
    if seal.sha256 != hashlib.sha256(data).hexdigest():
        raise DeploymentError(f"{history}: was changed after it was signed: {HOW_TO_SIGN}")
    if seal.signed_ns < since_ns:
        raise DeploymentError(f"{history}: is older than one that counted here and was put back: {HOW_TO_SIGN}")
    return SignedHistory(parse_history(data, history), seal.signed_ns)


def _open(history: Path, envelope: str, people: People) -> HistorySeal:
    signed = from_text(envelope)
    keys = people.keys_of(APPROVER)
    if signed.payload_type != payload_type(KIND) or not any(is_authentic(signed, key_id, keys) for key_id in keys):
        raise DeploymentError(f"{history}: is not signed by an approver who is known here: {HOW_TO_SIGN}")
    seal: HistorySeal = open_document(signed, keys, KIND, _Payload).content
    if people.deployments and seal.deployment not in people.deployments:
        raise DeploymentError(f"{history}: was signed for deployment {seal.deployment}, this is another: {HOW_TO_SIGN}")
    return seal
