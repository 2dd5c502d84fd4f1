"""Somebody's own policy, from the page that explains it to the registry."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from opc_ros.cli.main import main
from opc_ros.policies.behaviour_identity import behaviour_id
from opc_ros.policies.candidate import read_candidate, write_candidate
from opc_ros.policies.registry import CandidateRegistry
from tests.policies.making import SMALL, make_candidate, make_episodes, make_store

PAGE = Path(__file__).resolve().parents[2] / "opc_ros" / "docs" / "tutorials" / "own-policy.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policy.py").write_text(blocks("python")[0])
    make_store(tmp_path / "store", make_episodes(10))
    return tmp_path


def test_the_page_works_as_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in blocks("sh")[0].splitlines():
        words = shlex.split(line)
        assert words[0] == "opc"
        assert main(words[1:]) == 0, (line, capsys.readouterr())
    printed = capsys.readouterr().out
    assert "it can be scored" in printed
    assert "published: the gate reads ranking" in printed


def test_the_page_works_as_printed_for_a_policy_that_answers_actions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cloned.py").write_text(blocks("python")[1])
    for line in blocks("sh")[1].splitlines():
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr())
    assert "critic on 10 episodes" in capsys.readouterr().out


@pytest.mark.parametrize("artifact_format", ["onnx", "torch_export"])
def test_a_manifest_is_written_by_asking_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], artifact_format: str
) -> None:
    assert main(["candidate", "export", "my_policy.py:build", "--name", "mine", "--format", artifact_format]) == 0
    exported = CandidateRegistry("candidates").find("mine")
    file = exported.folder / exported.manifest.artifact
    trusted = ["--allow-code"] if artifact_format == "torch_export" else []
    assert main(["candidate", "new", str(file), "--name", "asked", *trusted]) == 0
    asked = CandidateRegistry("candidates").find("asked")
    assert asked.manifest.input == exported.manifest.input
    assert behaviour_id(asked) == behaviour_id(exported)
    capsys.readouterr()
    assert main(["candidate", "diff", "mine", "asked"]) == 0
    assert "behaviour: the same" in capsys.readouterr().out
    assert main(["candidate", "new", str(file), "--name", "quick", "--reduced-decoding", *trusted]) == 0
    quick = CandidateRegistry("candidates").find("quick")
    assert quick.manifest.input == dataclasses.replace(asked.manifest.input, image_decoding="reduced")
    assert behaviour_id(quick) != behaviour_id(asked)


FIXED = "import torch\nfrom torch import nn\nclass P(nn.Module):\n    def forward(self, image, tool, action):\n        "


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return (image.reshape(3, -1).mean(1) + action[:, 0])", "must not fix the first dimension"),
        ("return image.mean()", "returned shape ()"),
        ("return tool @ action", "the module cannot be called with image (3, 3, 96, 96), tool (3, 5), action (3, 8)"),
    ],
)
def test_a_module_that_cannot_be_a_candidate_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, complaint: str
) -> None:
    (folder / "odd.py").write_text(FIXED + body + "\ndef build(): return P()\n")
    assert main(["candidate", "export", "odd.py:build", "--name", "odd"]) == 1
    error = capsys.readouterr().err
    assert complaint in error.splitlines()[-1]
    assert not Path("candidates").exists()


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("nowhere.py:build", "expected FILE.py:FUNCTION with a file that exists"),
        ("my_policy.py", "expected FILE.py:FUNCTION"),
        ("my_policy.py:make", "my_policy.py defines no make"),
        ("my_policy.py:nn", "raised TypeError"),
    ],
)
def test_what_names_no_module_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], reference: str, complaint: str
) -> None:
    assert main(["candidate", "export", reference, "--name", "x"]) == 1
    assert complaint in capsys.readouterr().err


def test_a_fixed_batch_gets_advice_instead_of_a_riddle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Mean(torch.nn.Module):
        def forward(self, image: torch.Tensor, tool: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            return image.mean(dim=(1, 2, 3)) + action[:, 0] + tool[:, 0]

    example = (torch.zeros(1, 3, 32, 32), torch.zeros(1, 5), torch.zeros(1, 8))
    torch.onnx.export(Mean(), example, "fixed.onnx", dynamo=True, external_data=False, verbose=False)
    capsys.readouterr()
    assert main(["candidate", "new", "fixed.onnx", "--name", "fixed"]) == 1
    assert "takes exactly 1 rows, expected any number: export it with a dynamic batch" in capsys.readouterr().err


def test_removed_and_renamed_candidates_leave_their_folders_aside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        make_candidate(folder / f"raw{seed}", seed=seed, image_size=32, name=f"number{seed}", **SMALL)
    assert main(["candidate", "add", "raw0", "raw1"]) == 0
    before = CandidateRegistry("candidates").find("number0")
    assert main(["candidate", "rename", "number0", "first"]) == 0
    renamed = CandidateRegistry("candidates").find("first")
    assert renamed.id != before.id
    assert behaviour_id(renamed) == behaviour_id(before)
    assert main(["candidate", "remove", "number1"]) == 0
    broken = Path("candidates") / "broken"
    broken.mkdir()
    (broken / "candidate.yaml").write_text("{")
    assert main(["candidate", "remove", "broken"]) == 0
    capsys.readouterr()
    assert main(["candidate", "list", "--json"]) == 0
    assert [entry["id"] for entry in json.loads(capsys.readouterr().out)] == [renamed.id]
    assert len(list(Path("candidates/.removed").iterdir())) == 3
    assert main(["candidate", "remove", "number1"]) == 1
    assert main(["candidate", "rename", "first", "a name with blanks"]) == 1
    assert "expected letters, digits" in capsys.readouterr().err


def test_behaviour_is_known_again_under_another_name_and_layout_but_not_with_other_weights(tmp_path: Path) -> None:
    original = make_candidate(tmp_path / "a", image_size=32, **SMALL)
    tensors = safetensors.numpy.load(original.artifact_bytes)
    again = safetensors.numpy.save(tensors, metadata={"made by": "somebody else"})
    copy = write_candidate(tmp_path / "b", dataclasses.replace(original.manifest, name="innocent"), again)
    assert copy.id != original.id
    assert behaviour_id(copy) == behaviour_id(original)
    first = min(name for name, value in tensors.items() if value.ndim > 1)
    other = {name: value + np.float32(1e-3) if name == first else value for name, value in tensors.items()}
    changed = write_candidate(tmp_path / "c", original.manifest, safetensors.numpy.save(other))
    assert behaviour_id(changed) != behaviour_id(original)
    slower = dataclasses.replace(original.manifest, think_s=2.0)
    assert behaviour_id(write_candidate(tmp_path / "d", slower, original.artifact_bytes)) != behaviour_id(original)
    assert read_candidate(tmp_path / "b").name == "innocent"
