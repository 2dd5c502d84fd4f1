from __future__ import annotations

import json
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.policies.candidate import read_candidate
from tests.policies.bad_graphs import loops_for_ever, write_onnx
from tests.policies.making import SMALL, make_candidate, make_episodes, make_store
from tests.policies.test_migration import to_version1


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_candidate(tmp_path / "raw", image_size=32, **SMALL)
    return tmp_path / "raw"


def test_what_is_added_is_a_copy_under_name_and_id(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidate = read_candidate(raw)
    assert main(["candidate", "add", "raw"]) == 0
    kept = Path("candidates") / f"whole_image-0-{candidate.id[:12]}"
    assert read_candidate(kept).id == candidate.id
    (raw / "weights.safetensors").unlink()
    assert main(["candidate", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [entry["id"] for entry in listed] == [candidate.id]


def test_adding_again_changes_nothing_but_a_tampered_copy_is_refused(
    raw: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["candidate", "add", "raw"]) == 0
    assert main(["candidate", "add", "raw"]) == 0
    kept = next(Path("candidates").iterdir())
    (kept / "weights.safetensors").write_bytes(b"other")
    assert main(["candidate", "add", "raw"]) == 1
    assert "was changed since it was added" in capsys.readouterr().err


def test_show_prints_id_and_manifest(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["candidate", "add", "raw"]) == 0
    capsys.readouterr()
    assert main(["candidate", "show", read_candidate(raw).id[:8]]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"id: {read_candidate(raw).id}\n")
    assert "architecture: whole_image" in printed


def test_list_names_what_cannot_be_read(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["candidate", "add", "raw"]) == 0
    (Path("candidates") / "bad").mkdir()
    (Path("candidates") / "bad" / "candidate.yaml").write_text("{")
    assert main(["candidate", "list"]) == 1
    printed = capsys.readouterr()
    assert "whole_image-0" in printed.out
    assert "candidates/bad cannot be read" in printed.err


def test_check_tries_recorded_frames(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path / "store", make_episodes(3))
    assert main(["candidate", "check", "raw"]) == 0
    assert "tried on 11 recorded frames; it can be scored" in capsys.readouterr().out


def test_check_says_what_is_wrong(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import safetensors.torch

    make_store(tmp_path / "store", make_episodes(3))
    weights = safetensors.torch.load((raw / "weights.safetensors").read_bytes())
    dead = {name: tensor.zero_() if name.startswith("judge") else tensor for name, tensor in weights.items()}
    (raw / "weights.safetensors").write_bytes(safetensors.torch.save(dead))
    assert main(["candidate", "check", "raw"]) == 1
    assert "wrong: every one of 11 answers is 0.5: the output is constant" in capsys.readouterr().out


def test_folders_of_the_format_before_are_refused_and_migrate(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_id = to_version1(raw)
    assert main(["candidate", "show", "raw"]) == 1
    assert "`opc candidate migrate FOLDER` writes them out" in capsys.readouterr().err
    assert main(["candidate", "migrate", "raw"]) == 0
    new_id = read_candidate(raw).id
    assert capsys.readouterr().out.splitlines() == [
        f"{old_id[:12]} -> {new_id[:12]}  raw",
        "1 of 1 migrated, their old manifests kept beside the new ones",
    ]
    assert main(["candidate", "migrate", "raw", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_doctor_shows_a_candidate_as_a_robot_will_run_it(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--policy", "raw"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["id"] == read_candidate(raw).id
    assert lines["search"] == "cem, 64 samples, 6 elites, 3 rounds, drawn by seed_and_step"
    assert lines["deadline"] == "1 s for each action"
    assert lines["here"].endswith("ms per action on this machine, in a process of its own")


def test_doctor_says_so_when_a_candidate_cannot_keep_its_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_onnx(tmp_path / "late", loops_for_ever(after_row=10), think_s=0.1)
    assert main(["doctor", "--policy", str(tmp_path / "late")]) == 1
    assert "takes longer than 0.1 s: its episodes would be broken off" in capsys.readouterr().out
