"""Ed25519 key pairs: the private key stays where the scheduler runs, and robots get the public key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from opc_ros.durable import replace_file
from opc_ros.errors import DeploymentError

PRIVATE_NAME = "scheduler.private.pem"
PUBLIC_SUFFIX = ".public.pem"
PEOPLE_NAME = "people.yaml"


class TextSigner(Protocol):
    """Anything that can sign text: a key in a file, or one held by an ssh agent."""

    @property
    def key_id(self) -> str: ...

    def sign_bytes(self, data: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BoundSigner:
    """A person's key bound to one deployment: what they sign with it counts nowhere else."""

    signer: TextSigner
    deployment: str  # id of its scheduler's key

    @property
    def key_id(self) -> str:
        return self.signer.key_id

    def sign_bytes(self, data: bytes) -> bytes:
        return self.signer.sign_bytes(data)


TrustedKeys = Mapping[str, Ed25519PublicKey]  # by key id


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, with the id by which others know its public key."""

    key_id: str
    private_key: Ed25519PrivateKey

    def sign(self, text: str) -> bytes:
        return self.sign_bytes(text.encode())

    def sign_bytes(self, data: bytes) -> bytes:
        return self.private_key.sign(data)


def create_keys(folder: Path) -> Signer:
    """Make a key pair in a folder; an existing private key is never overwritten."""
    private_key = Ed25519PrivateKey.generate()
    write_private_key(folder / PRIVATE_NAME, private_key)
    signer = Signer(key_id_of(private_key.public_key()), private_key)
    public = private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{signer.key_id}{PUBLIC_SUFFIX}").write_bytes(public)
    return signer


def write_private_key(path: Path, private_key: Ed25519PrivateKey) -> None:
    """Write the key durably, readable only by its owner; an existing file is never overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DeploymentError(f"{path}: already holds a key; move it away to make a new one") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())


def load_signer(folder: Path) -> Signer:
    """Load the private key of a folder; one that others may read is refused, as ssh does."""
    path = folder / PRIVATE_NAME
    try:
        mode = path.stat().st_mode
        pem = path.read_bytes()
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        advice = f"make a key pair with `opc keys create {folder}`" if is_missing else "ask whoever runs the scheduler"
        raise DeploymentError(f"{path}: {error.strerror}; {advice}") from error
    if mode & 0o077:
        raise DeploymentError(f"{path}: mode is {mode & 0o777:o}, expected 600: others can read the private key")
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DeploymentError(f"{path}: not a private key in PEM form: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise DeploymentError(f"{path}: holds a {type(key).__name__}, expected Ed25519")
    return Signer(key_id_of(key.public_key()), key)


def load_trusted_keys(folder: Path) -> TrustedKeys:
    """All public keys of a folder, by id; delete a key's file to stop trusting it."""
    keys: dict[str, Ed25519PublicKey] = {}
    for path in sorted(folder.glob(f"*{PUBLIC_SUFFIX}")):
        refuse_open_to_all(path)
        try:
            key = load_pem_public_key(path.read_bytes())
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise DeploymentError(f"{path}: not a public key in PEM form: {error}") from error
        if not isinstance(key, Ed25519PublicKey):
            raise DeploymentError(f"{path}: holds a {type(key).__name__}, expected Ed25519")
        keys[key_id_of(key)] = key
    if not keys:
        raise DeploymentError(f"{folder}: holds no *{PUBLIC_SUFFIX}; copy the scheduler's there, or `opc keys create`")
    return keys


def refuse_open_to_all(path: Path) -> None:
    """Refuse files and folders that anybody may write to: they decide whom to trust."""
    for each in (path, path.parent):
        mode = each.stat().st_mode
        if mode & 0o002:
            raise DeploymentError(
                f"{each}: mode is {mode & 0o777:o}: anybody on this machine could say whom to trust; `chmod o-w {each}`"
            )


def export_public_keys(folder: Path, to: Path) -> list[Path]:
    """Copy only the public keys, and the list of people and their roles, for a robot."""
    keys = load_trusted_keys(folder)
    copies = []
    try:
        to.mkdir(parents=True, exist_ok=True)
        for key_id, key in keys.items():
            copies.append(to / f"{key_id}{PUBLIC_SUFFIX}")
            copies[-1].write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        copies += export_people(folder, to)
    except OSError as error:
        raise DeploymentError(f"{to}: {error.strerror}") from error
    return copies


def export_people(folder: Path, to: Path) -> list[Path]:
    """Give a robot the current list of people and their roles."""
    if not (folder / PEOPLE_NAME).is_file():
        return []
    replace_file(to / PEOPLE_NAME, (folder / PEOPLE_NAME).read_bytes())
    return [to / PEOPLE_NAME]


def is_signed_by(key_id: str, text: str | bytes, signature: bytes, keys: TrustedKeys) -> bool:
    """Whether a trusted key with that id signed the text."""
    key = keys.get(key_id)
    if key is None:
        return False
    try:
        key.verify(signature, text.encode() if isinstance(text, str) else text)
    except InvalidSignature:
        return False
    return True


def key_id_of(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]
