"""candidate.yaml: what a candidate is, what input it expects and where it comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json, parse_yaml
from opc_ros.errors import CandidateError
from opc_ros.policies.action_search import ActionSearch, AnswerDraw, ChoiceSearch, CrossEntropySearch
from opc_ros.policies.input_spec import InputSpec
from opc_ros.task import GRASPING, Task, find_task

MANIFEST_NAME = "candidate.yaml"
FORMAT_VERSION = 2
_LONGEST_THINK_S = 600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a candidate came to be; nothing here changes what it computes."""

    family: str = ""  # what distinguishes it: "randomised", "heavy dropout"
    training_run: str = ""  # shared by all checkpoints of one run
    step: int | None = None  # of that run
    seed: int | None = None
    data_snapshot: str = ""
    git_revision: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class CandidateManifest:
    """One candidate.yaml: everything that decides which action is chosen, so that the id covers it.

    Defaults here only help to write manifests: they are written out in the file, and a file that omits one is refused.
    """

    format_version: int
    name: str
    artifact: str  # a file beside the manifest
    format: str  # one of opc_ros/policies/formats
    input: InputSpec
    architecture: str = ""  # safetensors only; the code for these weights ships with opc_ros
    hyper_parameters: dict[str, Any] = field(default_factory=dict)
    task: str = GRASPING.name  # defines its images, states and actions
    action_search: ActionSearch = field(default_factory=CrossEntropySearch)
    think_s: float = 1.0  # the longest that choosing an action may take on an arm
    kind: Literal["q", "policy"] = "q"  # whether it answers Q of an action, or an action
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, this opc_ros reads {FORMAT_VERSION}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}, expected letters, digits and . _ + -, at most 100")
        if not _NAME.fullmatch(self.artifact) or self.artifact == MANIFEST_NAME:
            raise ValueError(f"artifact is {self.artifact!r}, expected the plain name of a file beside {MANIFEST_NAME}")
        self._check_format()
        if (self.format == "safetensors") != bool(self.architecture):
            raise ValueError(
                f"format {self.format} with architecture {self.architecture!r}: "
                "safetensors needs one, every other format brings its own"
            )
        self._check_fits(find_task(self.task, where="task"))
        if self.hyper_parameters and not self.architecture:
            raise ValueError("hyper_parameters without an architecture that reads them")
        self._check_kind()
        if isinstance(self.action_search, ChoiceSearch) != (self.input.action_choices is not None):
            raise ValueError(
                f"action_search is {self.action_search.method}, expected choices where input: action_choices "
                "names the actions, cem otherwise"
            )
        if not (math.isfinite(self.think_s) and 0 < self.think_s <= _LONGEST_THINK_S):
            raise ValueError(f"think_s is {self.think_s:g}, expected above 0, at most {_LONGEST_THINK_S:g}")

    @property
    def is_policy(self) -> bool:
        """Whether it answers actions rather than Q."""
        return self.kind == "policy"

    def _check_kind(self) -> None:
        """Refuse a search, inputs or scales that only the other kind has."""
        given = list(self.input.arguments)
        if self.is_policy != isinstance(self.action_search, AnswerDraw):
            raise ValueError(
                f"kind is {self.kind}, action_search is {self.action_search.method}, "
                "expected answer for a policy, cem or choices for q"
            )
        if self.is_policy and "action" in given:
            raise ValueError(f"arguments are {given}, expected image, tool if used, once each, for a policy")
        if not self.is_policy and "action" not in given:
            raise ValueError(f"arguments are {given}, expected image and action, tool if used, once each")
        if self.is_policy and self.input.action_scale is not None:
            raise ValueError("action_scale is given, but a policy is shown no action and answers in metres and radians")

    def _check_format(self) -> None:
        from opc_ros.policies.formats import all_formats  # imported here because each format imports manifests

        if self.format not in all_formats():
            raise ValueError(f"format is {self.format!r}, expected one of {', '.join(all_formats())}")

    def _check_fits(self, task: Task) -> None:
        """Refuse scales and choices that do not fit the task, and a search that cannot handle its actions."""
        scale, choices, wanted = self.input.action_scale, self.input.action_choices, len(task.actions)
        if scale is not None and len(scale) != wanted:
            raise ValueError(f"action_scale has {len(scale)} numbers, expected {wanted} for {task.name}")
        for index, choice in enumerate(choices or ()):
            if len(choice) != wanted:
                raise ValueError(
                    f"action_choices[{index}] has {len(choice)} numbers, expected {wanted} for {task.name}"
                )
            if outside := task.violations(choice):
                raise ValueError(f"action_choices[{index}]: {outside[0]} in {task.name}")
        if choices is None and task is not GRASPING:
            raise ValueError(
                f"task is {task.name}, expected grasping: only grasps can be searched within bounds; "
                "name the actions in input: action_choices"
            )

    def to_document(self) -> dict[str, Any]:
        """The content of the file: tuples as lists, and no keys that are not set."""
        plain = _to_plain(asdict(self))
        assert isinstance(plain, dict)
        if not self.is_policy:
            del plain["kind"]  # earlier manifests did not have this key, and the id must stay the same
        return plain


def parse_manifest(data: bytes, *, where: str) -> CandidateManifest:
    """Read candidate.yaml strictly: no unknown key, and nothing that shapes an action left to a default."""
    document = parse_yaml(data, where=where, error=CandidateError)
    version = document.get("format_version") if isinstance(document, dict) else None
    if version == 1:
        raise CandidateError(
            f"{where}: format_version 1 says nothing about action search, normalisation and deadline; "
            "`opc candidate migrate FOLDER` writes them out"
        )
    manifest = parse_config(document, CandidateManifest, where=where, error=CandidateError)
    stated = {key: value for key, value in manifest.to_document().items() if key != "provenance"}
    if isinstance(document, dict) and (unstated := find_unstated(stated, document)):
        raise CandidateError(f"{where}: {unstated} is missing; a manifest states all that shapes an action")
    return manifest


def find_unstated(stated: Mapping[str, Any], document: Mapping[str, Any], path: str = "") -> str:
    """The first key that a document leaves to a default, with its parent keys in front; empty if none."""
    for key, value in stated.items():
        if key not in document:
            return f"{path}{key}"
        is_nested = isinstance(value, Mapping) and isinstance(document[key], Mapping)
        if is_nested and (below := find_unstated(value, document[key], f"{path}{key}: ")):
            return below
    return ""


def canonical_manifest(data: bytes, *, where: str) -> bytes:
    """The same bytes for every layout, comment and key order of one YAML document."""
    document = parse_yaml(data, where=where, error=CandidateError)
    try:
        return canonical_json(document, is_ascii=True).encode()
    except (TypeError, ValueError) as error:
        raise CandidateError(f"{where}: holds a value that is not text, number, list or keys: {error}") from error


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items() if item is not None and item != {} and item != ""}
    return [_to_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
