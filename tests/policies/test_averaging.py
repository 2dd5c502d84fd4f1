from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.main import main
from opc_ros.errors import CandidateError
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.averaging import average_candidates
from opc_ros.policies.candidate import Candidate, find_change, read_candidate
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations
from opc_ros.policies.registry import CandidateRegistry
from tests.policies.making import make_candidate

STATES = Observations(
    images=np.random.default_rng(0).integers(0, 256, (3, 48, 48, 3), dtype=np.uint8),
    tools=np.tile(np.array([0.55, 0.0, 0.2, 0.1, 0.08], dtype=np.float32), (3, 1)),
)
ACTIONS = np.random.default_rng(1).uniform(-0.08, 0.08, (3, 8)).astype(np.float32)


def members(folder: Path, architecture: str = "target_crop", count: int = 3) -> list[Candidate]:
    return [make_candidate(folder / f"m{seed}", architecture=architecture, seed=seed) for seed in range(count)]


@pytest.mark.parametrize("architecture", ["target_crop", "tool_crop", "whole_image"])
def test_its_answer_is_the_mean_of_its_members_answers(tmp_path: Path, architecture: str) -> None:
    of = members(tmp_path, architecture)
    average = average_candidates(of, "three", tmp_path / "three")
    expected = np.mean([load_q_function(member).q(STATES, ACTIONS) for member in of], axis=0)
    np.testing.assert_allclose(load_q_function(average).q(STATES, ACTIONS), expected, atol=1e-6)
    assert np.ptp([load_q_function(member).q(STATES, ACTIONS)[0] for member in of]) > 1e-3


def test_it_can_be_searched_and_says_whom_it_is_made_of(tmp_path: Path) -> None:
    of = members(tmp_path)
    average = average_candidates(of, "three", tmp_path / "three")
    search, space = CrossEntropySearch(samples=16, elites=4, rounds=2), average.manifest.input.action_space
    actions, values = greedy_actions(load_q_function(average), STATES, space, search)
    np.testing.assert_allclose(load_q_function(average).q(STATES, actions), values, atol=1e-5)
    assert all(member.id[:12] in average.manifest.provenance.notes for member in of)


def test_only_networks_of_one_kind_that_see_the_same_are_averaged(tmp_path: Path) -> None:
    one, two = members(tmp_path, count=2)
    other = make_candidate(tmp_path / "tool", architecture="tool_crop")
    wider = make_candidate(tmp_path / "wide", architecture="target_crop", hidden=32)
    larger = make_candidate(tmp_path / "large", architecture="target_crop", image_size=64)
    for members_given, complaint in (
        ([one, other], "candidate tool_crop-0: its architecture is not that of target_crop-0"),
        ([one, wider], "candidate target_crop-0: its hyper_parameters is not that of target_crop-0"),
        ([one, larger], "candidate target_crop-0: its input is not that of target_crop-0"),
        ([one], "expected at least two"),
        ([one, two, one], "each only once"),
        ([one, average_candidates([one, two], "two", tmp_path / "two")], "candidate two: is average"),
    ):
        with pytest.raises(CandidateError, match=complaint):
            average_candidates(members_given, "bad", tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_the_command_writes_it_beside_its_members_but_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    members(tmp_path / "candidates")
    command = ["candidate", "average", "two-of-us", "target_crop-0", "target_crop-2"]
    assert main(command) == 0
    made = read_candidate("candidates/two-of-us")
    assert capsys.readouterr().out == f"{made.id[:12]}  two-of-us, the mean of 2, in candidates/two-of-us\n"
    assert main(command) == 1
    assert "candidates/two-of-us: already exists" in capsys.readouterr().err
    assert main(["candidate", "average", "../out", "target_crop-0", "target_crop-2"]) == 1
    assert "name is '../out'" in capsys.readouterr().err


def test_a_linked_average_holds_no_weights_and_is_the_same_candidate(tmp_path: Path) -> None:
    of = members(tmp_path)
    whole = average_candidates(of, "three", tmp_path / "three")
    shutil.rmtree(tmp_path / "three")
    linked = average_candidates(of, "three", tmp_path / "three", is_linked=True)
    assert {path.name for path in linked.folder.iterdir()} == {"candidate.yaml", "members.yaml"}
    assert (linked.id, linked.artifact_bytes) == (whole.id, whole.artifact_bytes)
    assert find_change(linked) == ""
    added = CandidateRegistry(tmp_path / "elsewhere").add(linked)
    shutil.rmtree(of[0].folder)
    assert read_candidate(added.folder).id == whole.id  # shipped whole
    assert "m0" in find_change(linked)


def test_a_linked_average_whose_member_is_another_today_is_refused(tmp_path: Path) -> None:
    of = members(tmp_path)
    linked = average_candidates(of, "three", tmp_path / "three", is_linked=True)
    make_candidate(of[1].folder, architecture="target_crop", seed=7)
    with pytest.raises(CandidateError, match=f"member m1 has id .*, expected {of[1].id[:12]}"):
        read_candidate(linked.folder)


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("folder: m0", "folder: ../m0", "expected the plain name of a folder beside"),
        ("folder: m0", "folder: three", "member three is an average itself"),
        ("artifact_sha256: ", "artifact_sha256: 0", "expected 64 hexadecimal digits"),
        (
            "- folder: m0\n  id: {0}\n- folder: m1\n  id: {1}",
            "- folder: m1\n  id: {1}\n- folder: m0\n  id: {0}",
            "sha256",
        ),
        ("members:", "weights: weights.safetensors\nmembers:", "weights"),
    ],
)
def test_a_list_of_members_that_was_tampered_with_is_refused(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    of = members(tmp_path)
    linked = average_candidates(of, "three", tmp_path / "three", is_linked=True)
    path, ids = linked.folder / "members.yaml", [member.id for member in of]
    text = path.read_text()
    assert before.format(*ids) in text
    path.write_text(text.replace(before.format(*ids), after.format(*ids)))
    with pytest.raises(CandidateError, match=complaint):
        read_candidate(linked.folder)


def test_weights_beside_a_list_of_members_are_refused(tmp_path: Path) -> None:
    linked = average_candidates(members(tmp_path), "three", tmp_path / "three", is_linked=True)
    (linked.folder / "weights.safetensors").write_bytes(linked.artifact_bytes)
    with pytest.raises(CandidateError, match="expected one of them"):
        read_candidate(linked.folder)
    with pytest.raises(CandidateError, match="not beside"):
        average_candidates(members(tmp_path), "far", tmp_path / "far" / "away", is_linked=True)
    assert not (tmp_path / "far").exists()
