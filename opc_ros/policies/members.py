"""An average whose folder names its members' folders instead of repeating their weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from opc_ros.config import parse_config
from opc_ros.documents import parse_yaml, read_bytes
from opc_ros.errors import CandidateError

MEMBERS_NAME = "members.yaml"
FORMAT_VERSION = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Member:
    """A candidate in a folder beside the average's."""

    folder: str
    id: str

    def __post_init__(self) -> None:
        if self.folder in ("", ".", "..") or "/" in self.folder or "\0" in self.folder:
            raise ValueError(f"folder is {self.folder!r}, expected the plain name of a folder beside the average's")
        if not _SHA256.fullmatch(self.id):
            raise ValueError(f"id is {self.id[:80]!r}, expected 64 hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Members:
    """One members.yaml: whose weights, in which order, make up the artifact with this digest."""

    format_version: int
    artifact_sha256: str
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, this opc_ros reads {FORMAT_VERSION}")
        if not _SHA256.fullmatch(self.artifact_sha256):
            raise ValueError(f"artifact_sha256 is {self.artifact_sha256[:80]!r}, expected 64 hexadecimal digits")

    def to_yaml(self) -> bytes:
        document = {
            "format_version": self.format_version,
            "artifact_sha256": self.artifact_sha256,
            "members": [{"folder": member.folder, "id": member.id} for member in self.members],
        }
        return yaml.safe_dump(document, sort_keys=False).encode()


def read_linked_artifact(folder: Path, read_member: Callable[[Path], tuple[str, bytes]]) -> bytes:
    """The artifact that members.yaml describes, byte for byte as if it lay in the folder.

    Args:
        folder: the average's.
        read_member: returns id and artifact of the candidate in a folder.
    """
    path = folder / MEMBERS_NAME
    data = read_bytes(path, error=CandidateError)
    document = parse_yaml(data, where=str(path), error=CandidateError)
    listed = parse_config(document, Members, where=str(path), error=CandidateError)
    artifacts = []
    for member in listed.members:
        beside = folder.absolute().parent / member.folder
        if (beside / MEMBERS_NAME).exists():
            raise CandidateError(f"{path}: member {member.folder} is an average itself, expected a single network")
        found, artifact = read_member(beside)
        if found != member.id:
            raise CandidateError(f"{path}: member {member.folder} has id {found[:12]}, expected {member.id[:12]}")
        artifacts.append(artifact)
    joined = join_weights(artifacts, where=str(path))
    digest = hashlib.sha256(joined).hexdigest()
    if digest != listed.artifact_sha256:
        raise CandidateError(f"{path}: its members' weights have sha256 {digest}, expected {listed.artifact_sha256}")
    return joined


def join_weights(artifacts: Sequence[bytes], *, where: str) -> bytes:
    """The safetensors file of the architecture `average`: every member's tensors under that member's index."""
    import safetensors
    import safetensors.numpy

    try:
        tensors = {
            f"members.{number}.{name}": tensor
            for number, artifact in enumerate(artifacts)
            for name, tensor in safetensors.numpy.load(artifact).items()
        }
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise CandidateError(f"{where}: a member's weights cannot be joined: {reason}") from error
    return safetensors.numpy.save(tensors)
