from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from opc_ros.errors import CandidateError, ConfigError
from opc_ros.policies.architectures import state_hyper_parameters
from opc_ros.policies.candidate import read_candidate, write_candidate
from opc_ros.policies.loading import load_q_function
from tests.policies.making import make_candidate


def rewrite_manifest(folder: Path, **changes: object) -> None:
    path = folder / "candidate.yaml"
    document = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(_merge(document, changes)))


def _merge(document: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    """Nested keys as well; None removes one."""
    merged = dict(document)
    for key, value in changes.items():
        before = document.get(key)
        merged[key] = _merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return {key: value for key, value in merged.items() if value is not None}


def test_the_id_is_the_sha256_over_canonical_manifest_and_artifact(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path)
    document = yaml.safe_load((tmp_path / "candidate.yaml").read_text())
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    artifact = (tmp_path / "weights.safetensors").read_bytes()
    parts = hashlib.sha256(canonical).hexdigest(), hashlib.sha256(artifact).hexdigest()
    assert candidate.id == hashlib.sha256(f"opc candidate 1\n{parts[0]}\n{parts[1]}\n".encode()).hexdigest()


def test_layout_and_comments_of_the_manifest_do_not_change_the_id(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path)
    path = tmp_path / "candidate.yaml"
    document = yaml.safe_load(path.read_text())
    path.write_text("# trained on Tuesday\n" + yaml.safe_dump(document, sort_keys=True, default_flow_style=True))
    assert read_candidate(tmp_path).id == candidate.id


@pytest.mark.parametrize("change", [{"name": "other"}, {"provenance": {"seed": 1}}])
def test_any_change_of_the_manifest_changes_the_id(tmp_path: Path, change: dict[str, object]) -> None:
    candidate = make_candidate(tmp_path)
    rewrite_manifest(tmp_path, **change)
    assert read_candidate(tmp_path).id != candidate.id


def test_one_changed_byte_of_the_artifact_changes_the_id(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path)
    path = tmp_path / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert read_candidate(tmp_path).id != candidate.id


def test_what_runs_are_the_bytes_that_were_hashed_even_if_the_file_changes_in_between(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path / "a", seed=1)
    other = make_candidate(tmp_path / "b", seed=2)
    before = dict(load_q_function(candidate)._network.named_parameters())["judge.0.weight"]  # type: ignore[attr-defined]
    (tmp_path / "a" / "weights.safetensors").write_bytes(other.artifact_bytes)
    after = dict(load_q_function(candidate)._network.named_parameters())["judge.0.weight"]  # type: ignore[attr-defined]
    assert torch.equal(before, after)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"format_version": 9}, "format_version is 9, this opc_ros reads 2"),
        ({"artifact": "../../etc/passwd"}, "plain name of a file"),
        ({"artifact": "candidate.yaml"}, "plain name of a file"),
        ({"format": "pickle"}, "'pickle', expected one of"),
        ({"format": "onnx"}, "every other format brings its own"),
        ({"architecture": ""}, "safetensors needs one"),
        ({"name": "a b"}, "name is 'a b'"),
        ({"input": {"image_height": 0, "image_width": 48}}, "expected 1 to 4096"),
        ({"input": {"image_height": 48, "image_width": 48, "action_scale": [1.0]}}, "action_scale has 1 numbers"),
        ({"task": "pong"}, "task is pong, expected grasping: only grasps can be searched within bounds"),
        ({"task": "chess"}, "task is 'chess', expected one of grasping, pong"),
    ],
)
def test_a_wrong_manifest_is_refused_in_one_line(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    make_candidate(tmp_path)
    rewrite_manifest(tmp_path, **changes)
    with pytest.raises((CandidateError, ConfigError), match=r"candidate\.yaml") as caught:
        read_candidate(tmp_path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"architecture": "transformer"}, "expected one of whole_image, tool_crop, target_crop"),
        ({"hyper_parameters": {"depth": 3}}, "unknown key 'depth'"),
        ({"hyper_parameters": {"hidden": None}}, "hyper_parameters: hidden is missing"),
        ({"hyper_parameters": {"hidden": [32]}}, "tensor judge.0.bias has shape (64,)"),
        ({"input": {"image_height": 8, "image_width": 8}}, "cannot be built"),
        (
            {
                "architecture": "tool_crop",
                "hyper_parameters": dict.fromkeys(state_hyper_parameters("whole_image"))
                | state_hyper_parameters("tool_crop"),
                "input": {"camera": None},
            },
            "needs the camera's projection",
        ),
    ],
)
def test_a_network_that_does_not_fit_its_manifest_is_refused(
    tmp_path: Path, changes: dict[str, object], complaint: str
) -> None:
    make_candidate(tmp_path)
    rewrite_manifest(tmp_path, **changes)
    with pytest.raises((CandidateError, ConfigError)) as caught:
        load_q_function(read_candidate(tmp_path))
    assert complaint in str(caught.value)


def test_a_manifest_that_would_unfold_without_end_is_refused(tmp_path: Path) -> None:
    make_candidate(tmp_path)
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    (tmp_path / "candidate.yaml").write_text("hyper_parameters:\n  " + "\n  ".join(levels))
    with pytest.raises(CandidateError, match="uses an alias"):
        read_candidate(tmp_path)


def test_a_missing_artifact_is_named(tmp_path: Path) -> None:
    make_candidate(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(CandidateError, match=r"weights\.safetensors: No such file"):
        read_candidate(tmp_path)


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("artifact_format", ["safetensors", "onnx", "torch_export", "torchscript"])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_is_refused_under_every_name_and_never_run(tmp_path: Path, artifact_format: str, kind: str) -> None:
    trap = tmp_path / "sprung"
    make_candidate(tmp_path / "c")
    artifact = tmp_path / "c" / "weights.safetensors"
    if kind == "pickle":
        artifact.write_bytes(pickle.dumps(Trap(trap)))
    else:
        torch.save({"weights": Trap(trap)}, artifact)
    if artifact_format != "safetensors":
        rewrite_manifest(tmp_path / "c", format=artifact_format, architecture="", hyper_parameters=None)
    with pytest.raises(CandidateError, match="is a pickle"):
        load_q_function(read_candidate(tmp_path / "c"), allow_code=True)
    assert not trap.exists()


def test_a_candidate_survives_being_written_and_read(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path / "a", architecture="target_crop")
    again = write_candidate(tmp_path / "b", candidate.manifest, candidate.artifact_bytes)
    assert again.manifest == candidate.manifest
    assert again.id == candidate.id
    assert np.isfinite(again.manifest.input.camera.projection).all()  # type: ignore[union-attr]


def test_a_pipe_in_the_manifests_place_keeps_nobody_waiting(tmp_path: Path) -> None:
    make_candidate(tmp_path)
    (tmp_path / "candidate.yaml").unlink()
    os.mkfifo(tmp_path / "candidate.yaml")
    with pytest.raises(CandidateError, match="not a regular file"):
        read_candidate(tmp_path)
