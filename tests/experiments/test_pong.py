from __future__ import annotations

import contextlib
import datetime
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.main import main
from opc_ros.experiments.page_section import write_section
from opc_ros.experiments.pong import challengers
from opc_ros.experiments.pong.challengers import score_level
from opc_ros.experiments.pong.emulator import make_starts
from opc_ros.experiments.pong.experiment import PUBLISHED, PongPlan, PongResult, compare
from opc_ros.experiments.pong.judging import (
    METRICS,
    OVER_SPREAD,
    SHOWN,
    JudgedCandidate,
    LevelResult,
    MetricAgreement,
    find_misranked,
)
from opc_ros.experiments.pong.page import goal_lines, table_lines, write_pages
from opc_ros.experiments.pong.playing import open_games
from opc_ros.experiments.pong.plots import draw_plots
from opc_ros.experiments.pong.training import PongRun, Schedule
from opc_ros.experiments.pong.variants import Variant
from opc_ros.policies.candidate import read_candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import open_store
from tests.experiments.pong_players import make_follower

TINY = Schedule(decisions=400, checkpoints=2, warm_up=50, explored=200)
PLAN = PongPlan(TINY, TINY, points=16, recorded=8, training_starts=4, games=4, stickiness=(0.25,))


@contextlib.contextmanager
def no_report(title: str) -> Iterator[Report]:
    yield ignore_progress


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pong")


@pytest.fixture(scope="module")
def result(folder: Path) -> PongResult:
    """Two checkpoints of a short run and two hand-set players, on points of one more hand-set player."""
    games, kept = open_games(PLAN.games), folder / "candidates"
    kept.mkdir()
    trained = PongRun(Variant("DQN"), PLAN.schedule, games, make_starts(4, 1), kept).train()
    players = [make_follower(kept, offset=-0.4), make_follower(kept, "fleer", gain=-1.0, family="DDQN")]
    policies = [make_follower(folder / "policies", "edge", offset=-0.4), make_follower(folder / "policies", "middle")]
    return compare(
        PLAN, [*trained, *players], policies, folder, no_report, lambda: datetime.datetime.now(datetime.UTC), workers=2
    )


def test_points_go_from_the_emulator_through_store_q_cache_and_report(result: PongResult, folder: Path) -> None:
    (level,) = result.levels
    assert len(level.candidates) == 4
    assert level.episodes == 16
    assert 0 < level.successes < 16
    document = json.loads((folder / "scores-sticky25" / "newest" / "report.json").read_text())
    assert document["ranking_id"] == level.ranking_id
    by_name = {candidate["name"]: candidate for candidate in document["candidates"]}
    for one in level.candidates:
        assert set(one.scores) == set(SHOWN)
        assert by_name[one.name]["metrics"].items() >= one.scores.items()
        assert by_name[one.name]["known_success"] == {"share": one.success, "episodes": 8}
    success = {one.name: one.success for one in level.candidates}
    assert success["follower"] > success["fleer"] == 0.0
    agreement = level.agreement["soft_opc"]
    assert agreement is not None
    assert agreement.spearman_interval[0] <= agreement.spearman <= agreement.spearman_interval[1]
    for one in level.candidates:  # every episode counts once, so SoftOPC follows from the two means
        won = level.successes / level.episodes
        assert one.scores["soft_opc"] == pytest.approx((1 - won) * (one.q_of_wins - one.q_of_losses), abs=1e-5)


def test_challengers_are_scored_from_what_the_run_has_kept(
    result: PongResult, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, count = score_level(folder, "sticky25")
    (level,) = result.levels
    assert count == 4
    for metric in ("opc", "soft_opc", OVER_SPREAD):
        agreement = level.agreement[metric]
        assert agreement is not None
        assert found[metric] == pytest.approx(agreement.spearman)
    assert challengers.main([str(folder), "--json", str(tmp_path / "pong.json")]) == 0
    assert f"| weighted_auc | {found['weighted_auc']:.2f} |" in capsys.readouterr().out
    assert json.loads((tmp_path / "pong.json").read_text())["levels"]["Pong sticky25"] == pytest.approx(found)


def test_episodes_and_candidates_of_pong_name_their_task(result: PongResult, folder: Path) -> None:
    with open_store(folder / "validation-sticky25") as store:
        episodes = [store.read(episode.id) for episode in store.episodes()]
    assert {episode.task for episode in episodes} == {"pong"}
    assert {tuple(action) for episode in episodes for action in episode.actions().tolist()} <= {(0.0,), (1.0,), (-1.0,)}
    assert {episode.states().shape[1] for episode in episodes} == {0}
    manifests = [read_candidate(path.parent).manifest for path in folder.glob("candidates/*/candidate.yaml")]
    assert {manifest.task for manifest in manifests} == {"pong"}


def test_a_recorded_image_comes_back_as_it_was_seen(result: PongResult, folder: Path) -> None:
    with open_store(folder / "validation-sticky25") as store:
        episode = store.read("point-00000")
    images = [step.frame.decode() for step in episode.steps]
    assert images[0].shape == (40, 40, 3)
    for before, after in itertools.pairwise(images):
        np.testing.assert_array_equal(after[:, :, 1], before[:, :, 0])  # the ball one decision ago
    assert episode.behaviour_policy == "edge"


def test_a_second_call_plays_and_scores_nothing_again(
    result: PongResult, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opc_ros.experiments.pong.emulator import PongGame
    from opc_ros.policies.registry import CandidateRegistry

    monkeypatch.delattr(PongGame, "begin")

    outcomes = (folder / "outcomes.jsonl").read_bytes()
    with open_store(folder / "validation-sticky25") as store:
        recorded = list(store.episodes())
    candidates, _ = CandidateRegistry(folder / "candidates").find_each(())
    policies, _ = CandidateRegistry(folder / "policies").find_each(())
    again = compare(PLAN, candidates, policies, folder, no_report, lambda: datetime.datetime.now(datetime.UTC))
    assert again == result
    assert (folder / "outcomes.jsonl").read_bytes() == outcomes
    with open_store(folder / "validation-sticky25") as store:
        assert list(store.episodes()) == recorded


def test_the_page_sets_our_figures_beside_the_papers(result: PongResult, tmp_path: Path) -> None:
    (tmp_path / "plots").mkdir()
    plots = draw_plots(result, tmp_path / "plots")
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)
    write_pages(tmp_path / "README.md", result, plots, "opc reproduce pong --budget 3")
    headline, text = ((tmp_path / name).read_text() for name in ("README.md", "pong.md"))
    assert "[all tables and plots](pong.md)" in headline
    for name in ("scatter", "metrics", "training"):
        assert f"](plots/pong_{name}.png)" in text
    (level,) = result.levels
    ours = level.agreement["soft_opc"]
    assert ours is not None
    low, high = ours.spearman_interval
    cell = f"{ours.r_squared:.2f} / {ours.spearman:.2f} ({low:.2f} to {high:.2f}; paper 0.16 / 0.58)"
    assert f"| SoftOPC | {cell} |" in headline
    assert "Made by `opc reproduce pong --budget 3`" in text
    for digest in (level.snapshot_id, level.ranking_id, result.candidates_digest):
        assert digest in text
    assert "| `DDQN` | 0.00 | - | - |" in text  # one candidate alone has no order
    spread = level.agreement[OVER_SPREAD]
    assert spread is not None
    assert f"| SoftOPC over spread of Q | {spread.r_squared:.2f} / {spread.spearman:.2f} (" in headline
    assert len(list(table_lines(result))) == 1 + len(SHOWN)


def make_level(soft_opc: float, opc: float, td_error: float, scores: tuple[float, ...] = ()) -> LevelResult:
    """Candidates a, b, c, ... win fewer and fewer points."""
    rank_correlations = {"soft_opc": soft_opc, "opc": opc, "td_error": td_error}
    return LevelResult(
        stickiness=0.0,
        snapshot_id="",
        ranking_id="",
        episodes=2,
        successes=1,
        transitions=2,
        points=10,
        ceiling=1.0,
        candidates=tuple(
            JudgedCandidate(name, name, "DQN", 1, 0.9 - index / 10, {"opc": score}, 0.5, 0.4)
            for index, (name, score) in enumerate(zip("abcdefgh", scores, strict=False))
        ),
        agreement=dict.fromkeys(METRICS)
        | {metric: MetricAgreement(0.5, value, (0.0, 1.0)) for metric, value in rank_correlations.items()},
    )


def test_a_goal_asks_for_the_papers_figure_and_for_more_than_any_baseline() -> None:
    """The paper's SoftOPC is 0.75, its OPC 0.72; an error that falls where success rises is a good baseline."""
    soft_opc, opc = goal_lines(make_level(0.75, 0.71, -0.73))
    assert soft_opc == (
        "SoftOPC, sticky 0%: ξ 0.75, at or above the paper's 0.75 and above the best baseline's |ξ| (TD error, 0.73)"
    )
    assert (
        opc == "OPC, sticky 0%: ξ 0.71, below the paper's 0.72 and not above the best baseline's |ξ| (TD error, 0.73)"
    )


def test_the_misranked_are_those_whose_places_differ_most() -> None:
    """The ranks by OPC are c, d, b, a; by success a, b, c, d. a is 3 ranks off, c and d 2, b 1."""
    level = make_level(0.0, 0.0, 0.0, scores=(0.1, 0.2, 0.4, 0.3))
    found = [(one.candidate.name, one.by_score, one.by_success) for one in find_misranked(level, "opc", count=3)]
    assert found == [("a", 4, 1), ("c", 1, 3), ("d", 2, 4)]


def test_each_experiment_replaces_its_own_section_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("# Experiments\n")
    write_section(page, "grasping", "grasps\n")
    write_section(page, "pong", "first points")
    write_section(page, "pong", "other points")
    text = page.read_text()
    assert text.startswith("# Experiments\n\n<!-- grasping")
    assert "grasps" in text
    assert "other points" in text
    assert "first points" not in text
    assert text.count("<!-- pong") == 1


def test_the_published_figures_are_the_papers() -> None:
    assert PUBLISHED[0.0]["opc"] == (0.50, 0.72)
    assert PUBLISHED[0.1]["mcc_error"] == (0.02, -0.32)
    assert PUBLISHED[0.25]["soft_opc"] == (0.16, 0.58)


def test_a_budget_sizes_the_experiment_the_same_everywhere() -> None:
    small, large = PongPlan.for_budget(3), PongPlan.for_budget(240)
    assert small == PongPlan.for_budget(3)
    assert small.schedule.decisions < large.schedule.decisions
    assert small.points < large.points
    assert 9 * large.schedule.checkpoints >= 60


def test_no_workers_at_all_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        main(["reproduce", "pong", "--budget", "2", "--workers", "0", "--out", str(tmp_path)])
    assert usage.value.code == 2
    assert "argument --workers: '0', expected a whole number from 1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_budget_that_is_too_small_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "pong", "--budget", "0.5", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.strip() == "opc: budget is 0.5 minutes, expected at least 2"
    assert list(tmp_path.iterdir()) == []
