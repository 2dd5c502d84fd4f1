"""The key a person signs with: a file, or a key held by an ssh agent."""

from __future__ import annotations

import base64
import getpass
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from opc_ros.deployment.keys import PEOPLE_NAME, BoundSigner, Signer, TextSigner, key_id_of, write_private_key
from opc_ros.deployment.people import (
    PERSONS_ROLES,
    Role,
    add_person,
    find_deployments,
    load_people,
    parse_public_key,
    to_ssh_line,
)
from opc_ros.errors import DeploymentError

PERSON_SUFFIX = ".person.pem"  # private key of the current user, as created by `opc up twin`
MACHINE_SUFFIX = ".machine.pem"  # private key of a scorer or a robot
_IDENTITIES, _IDENTITIES_ANSWER, _SIGN, _SIGN_ANSWER = 11, 12, 13, 14
_LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class SignsAs:
    """A person and the key they sign with."""

    person: str
    signer: TextSigner


def find_signer(keys: Path, key_file: Path | None = None, person: str = "") -> SignsAs:
    """Find who signs: by the given file, $OPC_KEY, a key made for this lab, the ssh agent, or ~/.ssh/id_ed25519.

    Signatures are for the deployment that owns these keys, and for no other.
    """
    found = _find_signer(keys, key_file, person)
    deployments = find_deployments(keys)
    return SignsAs(found.person, BoundSigner(found.signer, deployments[0])) if deployments else found


def _find_signer(keys: Path, key_file: Path | None, person: str) -> SignsAs:
    people = load_people(keys)
    given = key_file or (Path(os.environ["OPC_KEY"]) if os.environ.get("OPC_KEY") else None)
    if given is not None:
        signer = load_person_key(given)
        owner = people.owner(signer.key_id)
        if owner is None:
            raise DeploymentError(
                f"{given}: key {signer.key_id} belongs to nobody in {keys / PEOPLE_NAME}: "
                f"`opc people add NAME --key {given}.pub`"
            )
        return SignsAs(owner, signer)
    usable: dict[str, TextSigner] = {}
    for path in (*sorted(keys.glob(f"*{PERSON_SUFFIX}")), Path.home() / ".ssh" / "id_ed25519"):
        if os.access(path, os.R_OK):
            try:
                found: TextSigner = load_person_key(path)
            except DeploymentError:
                continue  # encrypted, or not Ed25519: the agent may have it
            usable.setdefault(found.key_id, found)
    for agent_key in list_agent_keys():
        usable.setdefault(agent_key.key_id, agent_key)
    owners = [(people.owner(key_id), signer) for key_id, signer in usable.items()]
    for owner, each in owners:
        if owner is not None and person in ("", owner):
            return SignsAs(owner, each)
    who = f"for {person} " if person else ""
    raise DeploymentError(
        f"no key {who}to sign with: `ssh-keygen -t ed25519 -f me` makes one, "
        f"`opc people add NAME --key me.pub --keys {keys}` makes it known, --key me signs with it"
    )


def login_name() -> str:
    """The login name, reduced to what people.yaml accepts."""
    try:
        return (
            "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in getpass.getuser()) or "you"
        )
    except (KeyError, OSError):
        return "you"


def make_person_key(keys: Path, person: str) -> SignsAs:
    """Make a key with every role for the current user: for a lab of twins, where nothing can break."""
    key = Ed25519PrivateKey.generate()
    write_private_key(keys / f"{person}{PERSON_SUFFIX}", key)
    add_person(keys, person, key.public_key(), PERSONS_ROLES)
    return SignsAs(person, Signer(key_id_of(key.public_key()), key))


def make_machine_key(folder: Path, name: str, role: Role, people: Path) -> Signer:
    """Make a key for a scorer or a robot in its folder and register it in the people file; an existing key is kept."""
    path = folder / f"{name}{MACHINE_SUFFIX}"
    if not path.exists():
        write_private_key(path, Ed25519PrivateKey.generate())
    signer = load_person_key(path)
    (folder / f"{name}.pub").write_text(to_ssh_line(signer.private_key.public_key()) + "\n")
    add_person(people, name, signer.private_key.public_key(), (role,))
    return signer


def load_machine_key(folder: Path, name: str) -> Signer | None:
    """The key of a scorer or a robot; None if there is none yet."""
    path = folder / f"{name}{MACHINE_SUFFIX}"
    return load_person_key(path) if path.exists() else None


def require_robot_key(keys: Path, robot: str) -> Signer:
    """The key with which a robot signs its results; raises if there is none."""
    signer = load_machine_key(keys, robot)
    if signer is None:
        raise DeploymentError(
            f"{keys}: robot {robot} has no key of its own: `opc keys create {keys} --for {robot}`, and "
            f"where the scheduler runs `opc people add {robot} --key {robot}.pub --role robot`"
        )
    return signer


def load_person_key(path: Path) -> Signer:
    """Load a private Ed25519 key from ssh-keygen or `opc keys`; it must be readable only by its owner."""
    try:
        mode, data = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise DeploymentError(f"{path}: {error.strerror}; expected a private key file") from error
    if mode & 0o077:
        raise DeploymentError(f"{path}: mode is {mode & 0o777:o}, expected 600: others can read the private key")
    try:
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
        key = load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DeploymentError(
            f"{path}: cannot be used: {error}; one with a passphrase goes into the ssh agent: `ssh-add {path}`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise DeploymentError(f"{path}: holds a {type(key).__name__}; make one with `ssh-keygen -t ed25519`")
    return Signer(key_id_of(key.public_key()), key)


@dataclass(frozen=True, slots=True)
class AgentKey:
    """An Ed25519 key held by the ssh agent, which signs exactly the bytes it is given."""

    key_id: str
    blob: bytes

    def sign_bytes(self, data: bytes) -> bytes:
        answer = _ask_agent(_SIGN, _string(self.blob) + _string(data) + struct.pack(">I", 0), _SIGN_ANSWER)
        if answer is None:
            raise DeploymentError("the ssh agent does not sign: does it still hold the key (`ssh-add -l`)?")
        signature, _ = _take(answer)
        kind, rest = _take(signature)
        if kind != b"ssh-ed25519":
            raise DeploymentError(f"the ssh agent signed with {kind.decode()!r}, expected ssh-ed25519")
        return _take(rest)[0]


def list_agent_keys() -> list[AgentKey]:
    """The Ed25519 keys in the ssh agent; empty if no agent runs."""
    answer = _ask_agent(_IDENTITIES, b"", _IDENTITIES_ANSWER)
    if answer is None:
        return []
    (count,) = struct.unpack(">I", answer[:4])
    rest, found = answer[4:], []
    for _ in range(count):
        blob, rest = _take(rest)
        _, rest = _take(rest)
        if blob.startswith(_string(b"ssh-ed25519")):
            key = parse_public_key(f"ssh-ed25519 {base64.b64encode(blob).decode()}")
            found.append(AgentKey(key_id_of(key), blob))
    return found


def _ask_agent(kind: int, body: bytes, expected: int) -> bytes | None:
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.settimeout(30.0)
            agent.connect(path)
            agent.sendall(_string(bytes([kind]) + body))
            (size,) = struct.unpack(">I", _receive(agent, 4))
            answer = _receive(agent, min(size, _LARGEST_ANSWER))
    except OSError:
        return None
    return answer[1:] if answer[:1] == bytes([expected]) else None


def _receive(agent: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = agent.recv(size - len(data))
        if not more:
            raise OSError("the ssh agent hung up")
        data += more
    return data


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _take(data: bytes) -> tuple[bytes, bytes]:
    (size,) = struct.unpack(">I", data[:4])
    return data[4 : 4 + size], data[4 + size :]
