"""DSSE envelopes: a payload, its type and an Ed25519 signature over both, as in-toto and securesystemslib read them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

from opc_ros.deployment.keys import TextSigner, TrustedKeys, is_signed_by
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import PermitRefused

MOST_CHARACTERS = 4 * 1024 * 1024  # anybody may send an envelope, and reading it takes time


@dataclass(frozen=True, slots=True)
class Signed:
    """A payload, as the exact text that was signed, with its type and signature."""

    payload: str
    signature: bytes
    key_id: str  # a hint as to which key to try; never trusted
    payload_type: str

    @property
    def sha256(self) -> str:
        """Digest of what was signed; two signatures over the same content share it."""
        return hashlib.sha256(encode(self.payload_type, self.payload)).hexdigest()


def payload_type(kind: str) -> str:
    """The media type for one kind of our documents, so that a signature over one kind never passes for another."""
    return f"application/vnd.opc-ros.{kind}+json"


def encode(payload_type: str, payload: str) -> bytes:
    """DSSE's pre-authentication encoding: the bytes to sign."""
    kind, body = payload_type.encode(), payload.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def sign_payload(payload_type: str, payload: str, signer: TextSigner) -> Signed:
    return Signed(payload, signer.sign_bytes(encode(payload_type, payload)), signer.key_id, payload_type)


def is_authentic(signed: Signed, key_id: str, keys: TrustedKeys) -> bool:
    """Whether the trusted key with that id signed exactly this payload with this type."""
    return is_signed_by(key_id, encode(signed.payload_type, signed.payload), signed.signature, keys)


def to_text(signed: Signed) -> str:
    """The envelope as one line of JSON."""
    signature = {"keyid": signed.key_id, "sig": base64.b64encode(signed.signature).decode()}
    payload = base64.b64encode(signed.payload.encode()).decode()
    document = {"payload": payload, "payloadType": signed.payload_type, "signatures": [signature]}
    return canonical_json(document, is_ascii=True)


def from_text(text: str) -> Signed:
    """Read an envelope with one signature, without trusting any of it yet."""
    if len(text) > MOST_CHARACTERS:
        raise PermitRefused(f"signed text cannot be read: {len(text)} characters, expected at most {MOST_CHARACTERS}")
    document = parse_json(text, where="signed text cannot be read", error=PermitRefused)
    try:
        (signature,) = document["signatures"]
        return Signed(
            payload=base64.b64decode(document["payload"], validate=True).decode(),
            signature=base64.b64decode(signature["sig"], validate=True),
            key_id=str(signature.get("keyid", "")),
            payload_type=str(document["payloadType"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise PermitRefused(f"signed text cannot be read: {error!r}; expected a DSSE envelope") from error
