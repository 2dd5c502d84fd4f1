"""candidate.yaml: what a candidate is, what it wants to be shown and where it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json, parse_yaml
from opc_ros.errors import CandidateError
from opc_ros.policies.input_spec import InputSpec
from opc_ros.task import GRASPING, find_task

MANIFEST_NAME = "candidate.yaml"
FORMAT_VERSION = 1
ArtifactFormat = Literal["safetensors", "onnx", "torch_export", "torchscript"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a candidate came to be; nothing here changes what it computes."""

    family: str = ""  # what sets it apart: "randomised", "heavy dropout"
    training_run: str = ""  # checkpoints of one run share it
    step: int | None = None  # of that run
    seed: int | None = None
    data_snapshot: str = ""
    git_revision: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class CandidateManifest:
    """One candidate.yaml."""

    format_version: int
    name: str
    artifact: str  # a file beside the manifest
    format: ArtifactFormat
    input: InputSpec
    architecture: str = ""  # safetensors only: code for these weights ships with opc_ros
    hyper_parameters: dict[str, Any] = field(default_factory=dict)
    task: str = GRASPING.name  # what its images, states and actions are
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, this opc_ros reads {FORMAT_VERSION}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}, expected letters, digits and . _ + -, at most 100")
        if not _NAME.fullmatch(self.artifact) or self.artifact == MANIFEST_NAME:
            raise ValueError(f"artifact is {self.artifact!r}, expected the plain name of a file beside {MANIFEST_NAME}")
        if (self.format == "safetensors") != bool(self.architecture):
            raise ValueError(
                f"format {self.format} with architecture {self.architecture!r}: "
                "safetensors needs one, every other format brings its own"
            )
        find_task(self.task, where="task")
        if self.hyper_parameters and not self.architecture:
            raise ValueError("hyper_parameters without an architecture that reads them")


def parse_manifest(data: bytes, *, where: str) -> CandidateManifest:
    """Read candidate.yaml strictly."""
    document = parse_yaml(data, where=where, error=CandidateError)
    return parse_config(document, CandidateManifest, where=where, error=CandidateError)


def canonical_manifest(data: bytes, *, where: str) -> bytes:
    """The same bytes for every layout, comment and key order of the same YAML document."""
    document = parse_yaml(data, where=where, error=CandidateError)
    try:
        return canonical_json(document, is_ascii=True).encode()
    except (TypeError, ValueError) as error:
        raise CandidateError(f"{where}: holds a value that is not text, number, list or keys: {error}") from error
