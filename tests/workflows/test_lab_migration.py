"""A lab of version 0.1.0, written by that version: everything opens, or `opc migrate` changes it and loses nothing."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.journal import RobotJournal, read_audit_witness
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.episode import Label, LabelSource
from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.policy import load_policy
from opc_ros.store import open_store, verify

OLD_LAB = Path(__file__).parent / "labs" / "version_0_1_0.tar.gz"
OLD_ID = "30d7a36f9012b70458069e3acac4860a6b5105b6a8794af2ca2ae34de54a7d3c"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(OLD_LAB) as archive:
        archive.extractall(tmp_path)  # our own archive; Debian 12's Python has no filters yet
    monkeypatch.chdir(tmp_path / "lab")
    return tmp_path / "lab"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def states(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    return [(line["what"], line["state"]) for line in json.loads(capsys.readouterr().out)]


def test_an_old_store_opens_as_it_is(lab: Path) -> None:
    with open_store(lab / "store") as store:
        assert [(episode.id, episode.task, episode.steps) for episode in store.episodes()] == [
            ("seen0", "grasping", 3),
            ("seen1", "grasping", 3),
        ]
        assert store.find("seen1").label == Label(True, LabelSource.PERSON, "ada")
        episode = store.read("seen0")
        assert episode.steps[0].action_vector().tolist()[:3] == pytest.approx([0.03, -0.02, -0.05])
        assert episode.steps[0].frame.decode().shape == (16, 16, 3)
        (snapshot,) = (lab / "store" / "snapshots").glob("*.json")
        assert len(store.snapshot(snapshot.stem).entries) == 2
        assert verify(store).problems == ()


def test_an_old_audit_log_is_checked_and_written_on_under_its_name(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DeploymentFolder(lab / "deployment")
    assert folder.audit_log.name == "ledger.jsonl"
    before = check_audit_log(folder.audit_log, load_trusted_keys(folder.keys))
    assert (before.is_whole, before.head.entries) == (True, 3)
    with folder.open() as (queue, _), queue.change("note", 1_800_000_000_000_000_000) as tell:
        tell("halt", {"robot": "arm1"})
    assert [entry.kind for entry in read_audit_log(folder.audit_log)] == ["request", "request", "reject", "halt"]
    assert not (lab / "deployment" / "audit.jsonl").exists()
    assert main(["audit", "verify"]) == 0
    assert "whole, 4 entries" in capsys.readouterr().out


def test_an_old_journal_remembers_what_its_robot_has_spent(lab: Path) -> None:
    journal = RobotJournal(lab / "arm1" / "journal.db", 1_800_000_000_000_000_000)
    assert (journal.begun_ns, journal.spent("p1")) == (1_700_000_000_000_000_000, 1)
    assert [(run.episode_id, run.outcome) for run in journal.episodes_of("lease1")] == [("arm1-e1", "success")]
    journal.close()
    assert read_audit_witness(lab / "arm1" / "journal.db").entries == 1


def test_migrating_changes_what_must_change_and_loses_nothing(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digests(lab)
    with pytest.raises(CandidateError, match="opc candidate migrate"):
        read_candidate(lab / "candidates" / "c0")
    assert main(["migrate", "--check", "--json"]) == 0
    assert states(capsys)[:3] == [("store", "as it is"), ("candidates", "to migrate"), ("queue", "to migrate")]
    unchanged = digests(lab)
    assert {name: unchanged[name] for name in before} == before

    assert main(["migrate", "--json"]) == 0
    assert states(capsys) == [
        ("store", "as it is"),
        ("candidates", "migrated"),
        ("candidates", "migrated"),
        ("queue", "migrated"),
        ("queue", "to do"),
        ("audit log", "as it is"),
    ]
    after = digests(lab)
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed == {"candidates/c0/candidate.yaml", "deployment/queue.db"}
    assert after["candidates/c0/candidate.version-1.yaml"] == before["candidates/c0/candidate.yaml"]
    assert (lab / "deployment" / "queue.before-migration.db").exists()

    candidate = read_candidate(lab / "candidates" / "c0")
    assert candidate.id != OLD_ID
    load_policy(candidate).close()
    with DeploymentFolder(lab / "deployment").look() as queue:
        assert [(one.id, one.candidate_id, one.state) for one in queue.requests("queued", "rejected")] == [
            ("req1", OLD_ID, "queued"),
            ("req2", "d" * 64, "rejected"),
        ]


def test_migrating_again_does_nothing_more(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate"]) == 0
    before = digests(lab)
    capsys.readouterr()
    assert main(["migrate", "--json"]) == 0
    assert {state for _, state in states(capsys)} == {"as it is", "to do"}
    assert digests(lab) == before


def test_what_cannot_be_read_is_named_and_the_rest_is_still_migrated(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab / "deployment" / "queue.db").write_bytes(b"no database" * 100)
    assert main(["migrate", "--json"]) == 1
    found = states(capsys)
    assert ("candidates", "migrated") in found
    assert ("deployment", "failed") in found
