from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from opc_ros.cli.main import main
from opc_ros.errors import ConfigError, ScoreError
from opc_ros.experiments.agreement_intervals import measure_figures, measure_size_curve, noise_ceiling
from opc_ros.experiments.grasping import WorldResult, find_misranked, run_world, training_runs
from opc_ros.experiments.grasping_figures import draw_grasping
from opc_ros.experiments.grasping_page import to_headline, write_pages
from opc_ros.experiments.page_section import write_section
from opc_ros.experiments.validation_sets import JUDGING_WORLD, Budget, Part, ValidationSet, plan_sets
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.manifest import Provenance
from opc_ros.policies.q_function import Observations
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.store import Store, open_store
from sim_bridge.training.true_success import TrueSuccess
from tests.policies.making import make_candidate, make_episode

EARLIER = Path(__file__).resolve().parents[2] / "sim_bridge" / "zoo" / "earlier"
BUDGET = Budget(scripted=8, own_play=2, mostly_random=2, with_greedy=4)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A plan whose episodes are already in the store."""

    world: str = "train"
    image_size: int = 64
    robot: str = "scripted"

    def episode_id(self, seed: int) -> str:
        return f"e{seed:05d}"

    def make_policy(self, world: object) -> None:
        raise AssertionError("nothing is to be played")


def a_set(name: str, seeds: range) -> ValidationSet:
    return ValidationSet(name, "train", (Part(name, Recorded(), seeds),))


SETS = (a_set("mixed", range(12)), a_set("scripted", range(8)))


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    return [
        make_candidate(
            folder / str(seed),
            seed=seed,
            image_size=32,
            provenance=Provenance(
                training_run="long" if seed < 3 else "short", step=100 * seed, family=f"family {seed}"
            ),
        )
        for seed in range(4)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("store") / "store", create=True) as opened:
        for seed in range(13):  # one more than the sets ask for
            opened.append(make_episode(seed, steps=3 + seed % 3))
        yield opened


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, store: Store, candidates: list[Candidate]) -> WorldResult:
    true_success = {
        (candidate.id, "train"): TrueSuccess(successes, 200, 0.0, 1.0)
        for candidate, successes in zip(candidates, (20, 80, 160, 120), strict=True)
    }
    few = replace(candidates[3], id="f" * 64)
    true_success[few.id, "train"] = TrueSuccess(5, 199, 0.0, 1.0)
    with QCache(tmp_path_factory.mktemp("q_cache") / "q.sqlite") as q_cache:
        return run_world(
            "train", store, SETS, [*candidates, few], true_success, q_cache, LocalEngine(), budget=BUDGET, resamples=20
        )


def test_scores_are_those_of_direct_evaluation_on_the_episodes_of_each_set(
    world: WorldResult, candidates: list[Candidate]
) -> None:
    episodes = [make_episode(seed, steps=3 + seed % 3) for seed in range(8)]
    is_success = np.array([episode.label.is_success for episode in episodes])
    found = world.find("scripted")
    assert (found.episodes, found.successes) == (8, int(is_success.sum()))
    for index, candidate in enumerate(candidates):
        q_function = load_q_function(candidate)
        means = np.array(
            [
                q_function.q(
                    Observations.from_sequence([step.observe() for step in episode.steps], ImageView((32, 32))),
                    episode.actions(),
                ).mean()
                for episode in episodes
            ]
        )
        assert found.scores["soft_opc"][index] == pytest.approx(means[is_success].mean() - means.mean(), abs=1e-6)
        assert found.q_of_failures[index] == pytest.approx(means[~is_success].mean(), abs=1e-6)


def test_only_candidates_with_enough_trials_are_compared(world: WorldResult) -> None:
    assert len(world.candidates) == 4
    assert world.success.tolist() == [0.1, 0.4, 0.8, 0.6]
    assert world.trials == (200, 200)


def test_the_baselines_rest_on_a_part_of_the_episodes(world: WorldResult) -> None:
    # Every third of twelve episodes; three of those four are among the first eight.
    assert world.find("mixed").episodes_with_greedy == 4
    assert world.find("scripted").episodes_with_greedy == 3
    assert set(world.find("mixed").figures) >= {"td_error", "sum_of_advantages", "mcc_error", "opc", "soft_opc"}


def test_too_few_candidates_are_refused(
    tmp_path: Path, store: Store, candidates: list[Candidate], world: WorldResult
) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache, pytest.raises(ScoreError, match="0 of 4 candidates have 200 trials"):
        run_world("train", store, SETS, candidates, {}, q_cache, LocalEngine(), budget=BUDGET)


def test_the_worst_misranked_come_first(world: WorldResult) -> None:
    found = replace(world.find("mixed"), scores={"soft_opc": np.array([0.4, 0.3, 0.2, 0.1])})
    misranked = find_misranked(replace(world, sets=(found,)), "mixed", count=2)
    # By success the order is 2, 3, 1, 0: the first is three places too high, the third two too low.
    assert [(m.name, m.by_score, m.by_success) for m in misranked] == [
        (world.candidates[0].name, 1, 4),
        (world.candidates[2].name, 3, 1),
    ]


def test_checkpoints_of_a_run_come_in_the_order_of_their_steps(world: WorldResult) -> None:
    assert {run: at.tolist() for run, at in training_runs(world).items()} == {"long": [0, 1, 2]}


def test_figures_have_intervals_around_them() -> None:
    # Q of candidate k is k on successes and 0 on failures, so SoftOPC rises with k: a perfect line.
    lengths, success = np.array([1, 2, 1, 2]), np.array([True, False, True, False])
    is_positive = np.repeat(success, lengths)
    q = np.outer(np.arange(1.0, 7.0), is_positive)
    true_success = np.arange(6) / 10
    scores, figures = measure_figures((q, lengths, success), None, true_success, 50, np.random.default_rng(0))
    np.testing.assert_allclose(scores["soft_opc"], np.arange(1, 7) / 2)
    assert figures["soft_opc"].spearman == pytest.approx(1.0)
    assert figures["soft_opc"].r_squared_over_candidates == pytest.approx((1.0, 1.0))
    # All candidates order transitions the same way, so OPC predicts nothing.
    assert figures["opc"].spearman == 0.0
    assert "td_error" not in figures


def test_larger_sets_agree_better_and_the_whole_set_is_the_end_of_the_curve() -> None:
    rng = np.random.default_rng(1)
    success = np.arange(200) % 2 == 0
    quality = np.linspace(0, 1, 20)
    q = quality[:, None] * success + rng.normal(0, 2.0, (20, 200))
    curve = measure_size_curve("mixed", q, np.ones(200, dtype=np.int64), success, quality, rng)
    assert curve.sizes == (10, 25, 50, 100, 200)
    assert curve.mean["soft_opc"][0] < curve.mean["soft_opc"][3] < curve.mean["soft_opc"][4]
    assert curve.low["soft_opc"][4] == curve.high["soft_opc"][4] == curve.mean["soft_opc"][4]


def test_noise_in_trials_lowers_what_can_be_reached() -> None:
    rng = np.random.default_rng(0)
    success = np.linspace(0.4, 0.6, 21)
    assert noise_ceiling(success, np.full(21, 20), rng) < 0.7
    assert noise_ceiling(success, np.full(21, 100_000), rng) > 0.98


def test_no_scene_is_played_by_two_policies_and_sets_say_who_plays() -> None:
    earlier = [read_candidate(EARLIER / name) for name in ("keen-00300", "careful-00400")]
    for world, names in (
        ("train", ["mixed", "scripted", "own play", "mostly_random"]),
        ("pseudo_real", ["mixed", "scripted", "own play", "weaker", "better"]),
    ):
        sets = plan_sets(world, Budget.of_scale(1), earlier)
        assert [found.name for found in sets] == names
        mixed = sets[0]
        seeds = [seed for part in mixed.parts for seed in part.seeds]
        assert len(seeds) == len(set(seeds)) == len(mixed.episode_ids) == 600 + 30 * len(earlier)
        assert min(seeds) >= 500_000
        assert max(seeds) < 1_000_000


def test_a_budget_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="budget is 0, expected above 0"):
        Budget.of_scale(0)


def test_the_page_keeps_what_others_wrote_and_replaces_only_its_own_section(tmp_path: Path, world: WorldResult) -> None:
    page = tmp_path / "README.md"
    page.write_text("# Experiments\n\nThe tree.\n")
    plots = draw_grasping([world], tmp_path)
    write_section(page, "grasping", "## Grasping\n\nold")
    write_pages(page, [world], plots, command="opc reproduce grasping")
    headline, written = page.read_text(), (tmp_path / "grasping.md").read_text()
    assert headline.startswith("# Experiments\n\nThe tree.\n")
    assert "old" not in headline
    assert headline.count("## Grasping: does the score predict success?") == 1
    assert "| train objects | scripted | 8 |" in written
    for plot in plots:
        assert plot.read_bytes().startswith(b"\x89PNG")
        assert f"]({plot.name})" in written


def test_the_headline_shows_each_score_beside_the_papers_and_leads_to_the_tables(world: WorldResult) -> None:
    written = to_headline([world], command="opc reproduce grasping", tables="grasping.md")
    figure = world.find("mixed").figures["opc"]
    low, high = figure.spearman_over_candidates
    assert f" | {figure.r_squared:.2f} / {figure.spearman:.2f} ({low:.2f} to {high:.2f}) | " in written
    assert "| 0.55 / 0.76 |" in written  # the paper's SoftOPC on train objects
    assert "(grasping.md)" in written
    # However well four candidates agree, the goal requires forty.
    assert "40 candidates | open: too few candidates" in written


def test_a_world_that_is_no_column_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "grasping", "--world", "moon"]) == 1
    assert capsys.readouterr().err == "opc: --world moon: expected one of train, test, pseudo_real\n"


def test_the_judging_world_is_only_used_for_collecting(capsys: pytest.CaptureFixture[str]) -> None:
    """No score of the page may be computed there; decision 14 says when it may be played in."""
    assert main(["reproduce", "grasping", "--world", JUDGING_WORLD]) == 1
    assert "--world second_pseudo_real: expected one of train, test, pseudo_real\n" in capsys.readouterr().err
    assert main(["reproduce", "grasping", "--world", "moon", "--only-collect"]) == 1
    assert f"expected one of train, test, pseudo_real, {JUDGING_WORLD}" in capsys.readouterr().err
