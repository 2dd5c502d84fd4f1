from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opc_ros.errors import CandidateError, ConfigError, SetupError
from opc_ros.experiments.archived import read_archive, restore_archived
from opc_ros.policies.candidate import Candidate
from tests.policies.making import make_candidate


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=tester", "-c", "user.email=tester@opc-ros.example")
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def kept(tmp_path: Path) -> Candidate:
    return make_candidate(tmp_path / "made" / "kept", architecture="target_crop", name="kept")


@pytest.fixture
def archive(tmp_path: Path, kept: Candidate) -> Path:
    """A repository whose latest commit no longer has the candidate that an earlier one had."""
    repository = tmp_path / "repository"
    (repository / "zoo").mkdir(parents=True)
    kept.folder.rename(repository / "zoo" / "kept")
    git(repository, "init", "--quiet")
    git(repository, "add", "zoo")
    git(repository, "commit", "--quiet", "-m", "with weights")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "rm", "--quiet", "-r", "zoo")
    path = repository / "archived.yaml"
    path.write_text(f"format_version: 1\ncommit: {commit}\nfolder: zoo\ncandidates: {{kept: '{kept.id}'}}\n")
    git(repository, "add", "archived.yaml")
    git(repository, "commit", "--quiet", "-m", "without")
    return path


def test_archived_candidates_come_back_from_history_as_they_were(
    archive: Path, kept: Candidate, tmp_path: Path
) -> None:
    for _ in range(2):
        (restored,) = restore_archived(archive, tmp_path / "data")
        assert (restored.id, restored.artifact_bytes) == (kept.id, kept.artifact_bytes)


def test_files_that_are_not_what_is_pinned_are_refused(archive: Path, kept: Candidate, tmp_path: Path) -> None:
    archive.write_text(archive.read_text().replace(kept.id, "0" * 64))
    with pytest.raises(CandidateError, match=f"has id {kept.id[:12]}, .* pins 000000000000"):
        restore_archived(archive, tmp_path / "data")


def test_a_shallow_clone_is_told_what_to_fetch_and_can_fetch_it(archive: Path, kept: Candidate, tmp_path: Path) -> None:
    clone, commit = tmp_path / "clone", read_archive(archive).commit
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{archive.parent}", str(clone))
    with pytest.raises(SetupError, match=f"run `git fetch --depth 1 origin {commit}`"):
        restore_archived(clone / "archived.yaml", tmp_path / "data")
    git(clone, "fetch", "--quiet", "--depth", "1", "origin", commit)
    assert restore_archived(clone / "archived.yaml", tmp_path / "data")[0].id == kept.id


def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "archived.yaml"
    path.write_text(f"format_version: 1\ncommit: {'a' * 40}\nfolder: zoo\ncandidates: {{../out: {'b' * 64}}}\n")
    with pytest.raises(ConfigError, match="is no name of a folder"):
        read_archive(path)


def test_what_the_zoo_pins_is_in_the_history(tmp_path: Path) -> None:
    """In a shallow clone it is missing, which is what makes those clones small."""
    zoo = Path(__file__).resolve().parents[2] / "sim_bridge" / "zoo"
    archive = zoo / "archived_earlier.yaml"
    commit = read_archive(archive).commit
    if subprocess.run(["git", "-C", zoo, "cat-file", "-e", commit], capture_output=True).returncode != 0:
        pytest.skip(f"this clone does not hold commit {commit[:12]}")
    assert [candidate.name for candidate in restore_archived(archive, tmp_path)] == ["tool-00400"]
    assert not (zoo / "earlier" / "tool-00400").exists()
