"""Typing errors give one line that says which, got and expected, and an exit code that scripts can trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.audit_log import AuditLog
from tests.policies.making import SMALL, make_candidate, make_episodes, make_store

EVIDENCE = (".mcap", ".yaml", ".safetensors")
# Words, exit code, content of the last line of stderr. `file` is a file, so nothing can be created below it.
CASES = [
    ("train --threads -1", 2, "argument --threads: '-1', expected a whole number from 1"),
    ("train --threads two", 2, "'two', expected a whole number from 1"),
    ("evaluate --episodes 0", 2, "argument --episodes: '0', expected a whole number from 1"),
    ("score --prior 1.5", 2, "argument --prior: '1.5', expected a number from 0 to 1"),
    ("score --confidence 95", 2, "argument --confidence: '95', expected a number from 0.5 to 0.9999"),
    ("score --metric accuracy", 2, "argument --metric: invalid choice: 'accuracy'"),
    ("score --top-k 0", 2, "argument --top-k: '0', expected a whole number from 1"),
    ("doctor --wait -3", 2, "argument --wait: '-3', expected a number from 0 to 600"),
    ("reproduce published --safe-percent 500", 2, "'500', expected a number from 0 to 100"),
    ("reproduce tree --seeds 0", 2, "'0', expected a whole number from 1"),
    ("collect --store store --episodes -1", 2, "argument --episodes: '-1', expected a whole number from 1"),
    ("collect --store store --episodes 1 --epsilon nan", 2, "'nan', expected a number from 0 to 1"),
    ("demo --episodes 0", 2, "argument --episodes: '0', expected a whole number from 1"),
    ("demo --candidates nope", 1, "nope: holds no candidates, expected folders with candidate.yaml"),
    ("audit show log.jsonl --kind nope", 1, "log.jsonl: has no entry of kind 'nope', only of halt"),
    ("evaluate whole_image-0 --cache file/outcomes --episodes 1", 1, "Not a directory"),
    ("gate explain whole_image-0 --state file/d --gate file/gate.yaml", 1, "file/gate.yaml"),
    ("deploy request whole_image-0 --state file/d", 1, "file/d"),
    ("deploy approve x --state file/d", 1, "file/d"),
    ("deploy halt --reason smoke --state file/d", 1, "file/d"),
    ("demo --folder file/demo", 1, "Not a directory"),
    ("store import nothing.mcap --mapping nothing.yaml", 1, "nothing.mcap: no such file or folder"),
    ("store import nothing.mcap --inspect", 1, "nothing.mcap: no such file or folder"),
    ("store import log.jsonl --mapping nothing.yaml", 1, "nothing.yaml"),
    ("store exclude nobody --reason dark", 1, "nobody"),
    ("audit show --last -1", 2, "argument --last: '-1', expected a whole number from 0"),
    ("deploy halt --reason ", 2, "argument --reason: is empty, expected some text"),
    ("store snapshot --tag ", 2, "argument --tag: is empty, expected some text"),
    ("score --mlflow nope://x", 1, "MLflow"),
    ("score --scores file/scores", 1, "Not a directory"),
    ("score whole_image-0 whole_image-0", 1, "candidate whole_image-0: given twice"),
    ("keys create file/keys", 1, "Not a directory"),
    ("candidate add raw --candidates file/candidates", 1, "Not a directory"),
    ("candidate add cut", 1, "candidate cut: weights.safetensors"),
    ("candidate add nowhere", 1, "candidate nowhere: no such folder"),
    ("candidate remove nobody", 1, "candidate 'nobody': neither a folder nor a name or id in candidates"),
    ("candidate rename whole_image-0 whole_image-0", 1, "is already called 'whole_image-0'"),
    ("candidate tag nobody good", 1, "candidate 'nobody': neither a folder nor a name or id in candidates"),
    ("candidate tag whole_image-0 two,words", 1, "tag 'two,words': expected up to 40 letters, digits"),
    ("candidate tag raw good --candidates nowhere", 1, "nowhere: no such folder; `opc candidate add` makes it"),
    ("candidate untag whole_image-0 good", 1, "has no tag 'good', only none"),
    ("candidate new raw/weights.safetensors --name x", 1, "expected .onnx or .pt2"),
    ("candidate diff whole_image-0 nobody", 1, "candidate 'nobody'"),
    ("deploy status", 1, "deployment: no such folder; begin one with `opc keys create deployment/keys`"),
    ("deploy status --state file", 1, "file: no such folder"),
    ("deploy status x --state store", 1, "request 'x': no such request"),
    ("ranking list", 1, "scores: no such folder; `opc score` makes it"),
    ("ranking publish abc", 1, "expected one: give four or more characters of an id"),
    ("completion powershell", 2, "argument shell: invalid choice: 'powershell'"),
]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPC_TRACEBACK", raising=False)
    make_store("store", make_episodes(4))
    make_candidate(tmp_path / "raw", image_size=32, **SMALL)
    cut = make_candidate(tmp_path / "cut", image_size=32, name="cut", seed=1, **SMALL)
    (tmp_path / "cut" / "weights.safetensors").write_bytes(cut.artifact_bytes[:-7])
    assert main(["candidate", "add", "raw"]) == 0
    (tmp_path / "file").write_text("")
    AuditLog(tmp_path / "log.jsonl").append("halt", {"robot": "arm1"}, 1)
    capsys.readouterr()
    return tmp_path


@pytest.mark.parametrize(("words", "code", "line"), CASES, ids=[case[0] for case in CASES])
def test_what_is_wrong_is_said_in_one_line(
    lab: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, line: str
) -> None:
    before = {path: path.read_bytes() for path in lab.rglob("*") if path.suffix in EVIDENCE}
    try:
        found = main(words.split(" "))
    except SystemExit as end:
        found = int(end.code or 0)
    error = capsys.readouterr().err
    assert found == code, error
    lines = [text for text in error.splitlines() if text.strip()]
    assert line in lines[-1]
    assert "Traceback" not in error
    if code == 1:
        assert len(lines) == 1, error
        assert lines[0].startswith("opc: ")
    for path, data in before.items():
        assert path.read_bytes() == data, f"{path} was changed"


def test_when_every_candidate_is_bad_the_first_is_named(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "cut").rename(lab / "candidates" / "cut")
    assert main(["candidate", "remove", "whole_image-0"]) == 0
    capsys.readouterr()
    assert main(["score"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("opc: none of 1 candidates can be scored; cut: ")
    assert len(error.splitlines()) == 1


def test_keys_of_a_recipe_are_json_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--keys", "--json"]) == 0
    assert any(line.startswith("name:") for line in json.loads(capsys.readouterr().out))


def test_a_folder_of_other_things_is_no_store_to_the_doctor(tmp_path: Path) -> None:
    from opc_ros.bringup.checks import check_machine

    (tmp_path / "passwd").write_text("")
    found = {check.name: check for check in check_machine(tmp_path, list, "")}
    assert found["store"].status == "missing"
    assert "holds something other than episodes" in found["store"].detail
