from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from opc_ros.errors import ConfigError, EvaluationError
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.candidate import Candidate
from sim_bridge.training import evaluation
from sim_bridge.training.evaluation import TrialPlan, evaluate, read_outcomes
from sim_bridge.training.outcome_table import OutcomeTable, pack_outcomes
from sim_bridge.training.success_table import to_markdown, to_text
from sim_bridge.training.true_success import OutcomeFile, Trial, summarise
from tests.policies.making import make_candidate

SEARCH = CrossEntropySearch(samples=4, elites=1, rounds=1)
TRIAL = Trial("ab" * 32, "train", 32)


@pytest.fixture
def candidate(tmp_path: Path) -> Candidate:
    folder = tmp_path / "candidate"
    return make_candidate(folder, architecture="tool_crop", image_size=32, search=SEARCH, cells=8, channels=[4])


def test_wilson_interval_of_eight_in_ten() -> None:
    found = summarise([True] * 8 + [False] * 2)
    assert (found.successes, found.episodes, found.share) == (8, 10, 0.8)
    # Wilson 1927 with z = 1.96, worked by hand: (0.8 + 0.19208 +- 1.96 * sqrt(0.016 + 0.009604)) / 1.38416
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_outcomes_survive_a_line_cut_off_in_a_crash(tmp_path: Path) -> None:
    OutcomeFile(tmp_path, TRIAL).append({3: True, 1: False})
    path = tmp_path / TRIAL.file_name
    with path.open("a") as file:
        file.write("4")
    again = OutcomeFile(tmp_path, TRIAL)
    assert again.outcomes == {1: False, 3: True}
    again.append({4: True})
    assert OutcomeFile(tmp_path, TRIAL).outcomes == {1: False, 3: True, 4: True}


def test_an_outcome_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / TRIAL.file_name).write_text("{}\n1 1\n")
    with pytest.raises(EvaluationError, match="first line is of another measurement"):
        OutcomeFile(tmp_path, TRIAL)


def test_other_candidates_worlds_and_images_are_kept_apart() -> None:
    others = [
        Trial("ab" * 32, "test", 32),
        Trial("ab" * 32, "train", 64),
        Trial("cd" * 32, "train", 32),
    ]
    assert len({trial.file_name for trial in (TRIAL, *others)}) == 4


def test_an_interrupted_evaluation_plays_only_what_is_missing(
    candidate: Candidate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def play(task: evaluation._Task) -> dict[int, bool]:
        played.extend(task.seeds)
        if len(played) > 12:
            raise KeyboardInterrupt
        return {seed: seed % 2 == 0 for seed in task.seeds}

    monkeypatch.setattr(evaluation, "_play", play)
    plan = TrialPlan(worlds=("train",), episodes=20, first_seed=100)
    with pytest.raises(KeyboardInterrupt):
        evaluate([candidate], plan, tmp_path)
    known = read_outcomes([candidate], plan, tmp_path)[candidate.id, "train"]
    assert (known.successes, known.episodes) == (5, 10)
    played.clear()
    assert evaluate([candidate], plan, tmp_path)[candidate.id, "train"].share == 0.5
    assert played == list(range(110, 120))


def test_two_processes_find_what_one_finds(
    candidate: Candidate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_SEEDS_AT_ONCE", 1)
    plan = TrialPlan(worlds=("train",), episodes=2)
    one = evaluate([candidate], plan, tmp_path / "one")
    two = evaluate([candidate], plan, tmp_path / "two", workers=2)
    assert one == two
    trial = plan.trial(candidate, "train")
    assert OutcomeFile(tmp_path / "one", trial).outcomes == OutcomeFile(tmp_path / "two", trial).outcomes


def test_a_plan_names_worlds_that_exist() -> None:
    with pytest.raises(ConfigError, match="world 'moon': expected one of train"):
        TrialPlan(worlds=("moon",))


def test_the_table_has_the_best_first_and_says_what_is_not_measured(candidate: Candidate, tmp_path: Path) -> None:
    other = make_candidate(tmp_path / "other", architecture="tool_crop", image_size=32, name="other")
    results = {
        (candidate.id, "train"): summarise([False] * 4),
        (other.id, "train"): summarise([True] * 2 + [False] * 2),
    }
    lines = to_text([candidate, other], ("train", "test"), results).splitlines()
    assert lines[1].startswith("other")
    assert "50.0% (15.0% to 85.0%), n=4" in lines[1]
    assert lines[1].endswith("not measured")
    results[other.id, "test"] = summarise([True])
    markdown = to_markdown([candidate, other], ("train", "test"), results).splitlines()
    assert "over 4 episodes" in markdown[0]
    assert markdown[4].startswith("| other |")
    assert markdown[4].endswith("| 50.0 (15 to 85) | 100.0 (21 to 100), n=1 |")
    assert markdown[5].endswith("| 0.0 (0 to 49) | - |")


def test_packed_outcomes_are_those_of_the_files_and_later_ones_are_merged_in(
    candidate: Candidate, tmp_path: Path
) -> None:
    plan = TrialPlan(worlds=("train",))
    trial = plan.trial(candidate, "train")
    OutcomeFile(tmp_path / "first", trial).append({3: True, 1: False})
    OutcomeFile(tmp_path / "first", TRIAL).append({1: True})
    OutcomeFile(tmp_path / "second", trial).append({4: True})
    table = tmp_path / "outcomes.parquet"
    assert pack_outcomes(tmp_path / "first", table) == 3
    assert pack_outcomes(tmp_path / "second", table) == 4
    assert OutcomeTable(table).outcomes(trial) == {1: False, 3: True, 4: True}
    assert OutcomeTable(table).outcomes(TRIAL) == {1: True}
    known = read_outcomes([candidate], plan, table)[candidate.id, "train"]
    assert (known.successes, known.episodes) == (2, 3)


def test_outcomes_of_two_revisions_of_the_twin_are_never_mixed(tmp_path: Path) -> None:
    table = tmp_path / "outcomes.parquet"
    before = dataclasses.replace(TRIAL, twin_revision=1)
    OutcomeFile(tmp_path / "before", before).append({1: False, 2: False})
    pack_outcomes(tmp_path / "before", table)
    OutcomeFile(tmp_path / "after", TRIAL).append({1: True})
    pack_outcomes(tmp_path / "after", table)
    assert (OutcomeTable(table).revision(TRIAL), OutcomeTable(table).outcomes(TRIAL)) == (1, {1: False, 2: False})
    OutcomeFile(tmp_path / "after", TRIAL).append({3: True})
    pack_outcomes(tmp_path / "after", table)
    assert (OutcomeTable(table).revision(TRIAL), OutcomeTable(table).outcomes(TRIAL)) == (2, {1: True, 3: True})
    assert OutcomeTable(table).revision(Trial("cd" * 32, "train", 32)) == 0


def test_a_table_that_names_no_revision_is_of_the_first(tmp_path: Path) -> None:
    table = tmp_path / "outcomes.parquet"
    OutcomeFile(tmp_path / "files", dataclasses.replace(TRIAL, twin_revision=1)).append({1: True})
    pack_outcomes(tmp_path / "files", table)
    pq.write_table(pq.read_table(table).drop_columns(["twin_revision"]), table)
    assert OutcomeTable(table).revision(TRIAL) == 1


def test_a_packed_table_is_only_read_and_a_damaged_one_refused(candidate: Candidate, tmp_path: Path) -> None:
    table = tmp_path / "outcomes.parquet"
    with pytest.raises(ConfigError, match="only read; play into a folder"):
        evaluate([candidate], TrialPlan(worlds=("train",)), table)
    table.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(EvaluationError, match="cannot be read as a table of outcomes"):
        OutcomeTable(table)
