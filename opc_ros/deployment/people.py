"""Who may say what: people, their public keys and their roles, in one file beside the deployment's keys."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)

from opc_ros.config import load_config
from opc_ros.deployment.keys import PEOPLE_NAME, PUBLIC_SUFFIX, TrustedKeys, key_id_of, refuse_open_to_all
from opc_ros.durable import replace_file
from opc_ros.errors import DeploymentError

Role = Literal["requester", "approver", "labeller", "operator", "scorer", "robot"]  # the last two are machines
ROLES: tuple[Role, ...] = get_args(Role)
PERSONS_ROLES: tuple[Role, ...] = ("requester", "approver", "labeller", "operator")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Person:
    """One person or machine; a signature with any of the keys counts as theirs."""

    keys: tuple[str, ...]  # OpenSSH lines: "ssh-ed25519 AAAA..."
    roles: tuple[Role, ...]

    def public_keys(self) -> TrustedKeys:
        return {key_id_of(key): key for key in map(parse_public_key, self.keys)}


@dataclass(frozen=True, slots=True)
class People:
    """The content of people.yaml."""

    format: int = FORMAT
    people: dict[str, Person] = field(default_factory=dict)
    deployments: tuple[str, ...] = ()  # ids of the scheduler's keys beside the file; statements must name one of them

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, this program knows {FORMAT}")
        owners: dict[str, str] = {}
        for name, person in self.people.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"person {name!r}: expected letters, digits and . _ @ -")
            for key_id in person.public_keys():
                if owners.setdefault(key_id, name) != name:
                    raise ValueError(f"{owners[key_id]} and {name} have the same key {key_id}")

    def owner(self, key_id: str) -> str | None:
        """Who owns that key, if anybody."""
        return next((name for name, person in self.people.items() if key_id in person.public_keys()), None)

    def keys_of(self, role: Role) -> TrustedKeys:
        """The keys of all who have a role."""
        holders = (person for person in self.people.values() if role in person.roles)
        return {key_id: key for holder in holders for key_id, key in holder.public_keys().items()}


def load_people(folder: Path) -> People:
    """The people in a keys folder; nobody if there is no file yet."""
    path = folder / PEOPLE_NAME
    if path.is_file():
        refuse_open_to_all(path)
    people = load_config(path, People) if path.is_file() else People()
    return dataclasses.replace(people, deployments=find_deployments(folder))


def find_deployments(folder: Path) -> tuple[str, ...]:
    """Ids of the scheduler's public keys in a folder, newest first; the files are named after them."""
    paths = sorted(folder.glob(f"*{PUBLIC_SUFFIX}"), key=lambda path: (-path.stat().st_mtime_ns, path.name))
    return tuple(path.name.removesuffix(PUBLIC_SUFFIX) for path in paths)


def add_person(folder: Path, name: str, key: Ed25519PublicKey, roles: Sequence[Role]) -> Person:
    """Add a person, or another key or role for one."""
    known = load_people(folder)
    before = known.people.get(name, Person((), ()))
    line = to_ssh_line(key)
    person = Person(
        keys=(*before.keys, line) if line not in before.keys else before.keys,
        roles=tuple(role for role in ROLES if role in (*before.roles, *roles)),
    )
    _write(folder, People(people={**known.people, name: person}))
    return person


def remove_person(folder: Path, name: str) -> None:
    """Remove a person; nothing they signed counts any more."""
    known = load_people(folder)
    if name not in known.people:
        raise DeploymentError(f"{name!r}: no such person in {folder / PEOPLE_NAME}; `opc people list` shows them")
    _write(folder, People(people={other: person for other, person in known.people.items() if other != name}))


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read an Ed25519 public key as written by ssh-keygen or `opc keys`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{path}: cannot be read: {error}; expected a public key file") from error
    if "PRIVATE KEY" in text:
        raise DeploymentError(f"{path}: is a private key, which stays with its owner; give the .pub file")
    return parse_public_key(text, where=str(path))


def parse_public_key(text: str, *, where: str = "key") -> Ed25519PublicKey:
    data = text.strip().encode()
    try:
        key = load_pem_public_key(data) if data.startswith(b"-----") else load_ssh_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise DeploymentError(f"{where}: not a public key in OpenSSH or PEM form: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise DeploymentError(f"{where}: holds a {type(key).__name__}; make one with `ssh-keygen -t ed25519`")
    return key


def to_ssh_line(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _write(folder: Path, people: People) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "format": FORMAT,
        "people": {
            name: {"keys": list(person.keys), "roles": list(person.roles)} for name, person in people.people.items()
        },
    }
    text = "# Who may say what. `opc people add` and `opc people remove` write this file.\n"
    replace_file(folder / PEOPLE_NAME, (text + yaml.safe_dump(document, sort_keys=True, width=1000)).encode())
