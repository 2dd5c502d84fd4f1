"""Which candidates the demo takes, and what tampering does to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.demo.candidates import choose_candidates, choose_measured, tamper_with
from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.manifest import Provenance
from tests.policies.making import make_candidate


def test_the_last_checkpoint_of_each_run_is_taken(tmp_path: Path) -> None:
    for run, step in (("a", 100), ("a", 20), ("b", 7)):
        make_candidate(
            tmp_path / f"{run}-{step}", name=f"{run}-{step}", provenance=Provenance(training_run=run, step=step)
        )
    assert [candidate.name for candidate in choose_candidates(tmp_path, 17)] == ["a-100", "b-7"]


def test_measured_are_the_known_checkpoints_before_the_last_of_each_run(tmp_path: Path) -> None:
    for run, step in (("a", 100), ("a", 20), ("a", 5), ("b", 7), ("b", 9)):
        make_candidate(
            tmp_path / f"{run}-{step}", name=f"{run}-{step}", provenance=Provenance(training_run=run, step=step)
        )
    known = ("a-20", "a-100", "b-7")
    assert [candidate.name for candidate in choose_candidates(tmp_path, 17, known)] == ["a-100", "b-7"]
    assert [candidate.name for candidate in choose_measured(tmp_path, 17, known)] == ["a-20"]


def test_of_too_many_runs_some_are_taken_all_over_the_list(tmp_path: Path) -> None:
    for name in "abcdefg":
        make_candidate(tmp_path / name, name=name)
    assert [candidate.name for candidate in choose_candidates(tmp_path, 3)] == ["a", "c", "e"]
    assert [candidate.name for candidate in choose_candidates(tmp_path, 7)] == list("abcdefg")


def test_a_folder_without_candidates_is_named(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="holds no candidates"):
        choose_candidates(tmp_path, 3)


def test_a_tampered_copy_has_its_name_and_all_bytes_but_one(tmp_path: Path) -> None:
    whole = make_candidate(tmp_path / "whole", name="whole")
    tampered = read_candidate(tamper_with(whole, tmp_path / "tampered").folder)
    assert tampered.name == whole.name
    assert tampered.id != whole.id
    differing = [a != b for a, b in zip(whole.artifact_bytes, tampered.artifact_bytes, strict=True)]
    assert sum(differing) == 1
