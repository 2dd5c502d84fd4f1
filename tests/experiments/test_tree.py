import json
from pathlib import Path

import numpy as np
import pytest

from opc_ros import errors
from opc_ros.cli.main import main
from opc_ros.experiments import figures
from opc_ros.experiments.tree import (
    SPEARMAN_BANDS,
    VARIANTS,
    TreeResult,
    TreeSettings,
    TreeVariant,
    collect_episodes,
    measure_success,
    run_seed,
    run_variant,
    sample_q,
    score_functions,
)
from opc_ros.scoring import discounted_sum_of_advantages, final_rewards, mcc_error, opc, soft_opc, td_error

LEFT, RIGHT = [1.0, 0.0], [0.0, 1.0]


def test_true_success_of_a_tree_of_two_decisions_worked_by_hand() -> None:
    settings = TreeSettings(decisions=2, functions=3)
    # Nodes 1, 2, 3; the first leaf, left of node 2, is the success. Starting nodes are equally likely.
    q = np.array([[LEFT, LEFT, LEFT], [RIGHT, LEFT, LEFT], [LEFT, RIGHT, LEFT]])
    assert measure_success(q, settings) == pytest.approx([2 / 3, 1 / 3, 0])
    # With a slip half the time, an intended action happens with probability 3/4: node 2 gives 3/4, node 1 gives 9/16.
    slipping = TreeSettings(decisions=2, functions=3, slip=0.5)
    assert measure_success(q, slipping)[0] == pytest.approx((3 / 4 + 9 / 16) / 3)
    mostly = TreeSettings(decisions=2, functions=3, is_mostly_success=True)
    assert measure_success(q, mostly) == pytest.approx([1 / 3, 2 / 3, 1])


def test_episodes_walk_down_the_tree_as_their_actions_say() -> None:
    settings = TreeSettings(decisions=4, episodes=3000)
    episodes = collect_episodes(settings, np.random.default_rng(0))
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    for start, length, success in zip(starts, episodes.lengths, episodes.success, strict=True):
        node = episodes.node[start]
        for step in range(start, start + length):
            assert episodes.node[step] == node <= 15
            node = 2 * node + episodes.action[step]
        assert node > 15
        assert success == (node == 16)
    assert set(episodes.node) == set(range(1, 16))
    # A random walk from each inner node on the path: 1/16 + 1/8 + 1/4 + 1/2, over 15 nodes.
    assert episodes.success.mean() == pytest.approx(15 / 16 / 15, abs=0.015)


def test_the_intended_action_is_recorded_not_the_executed_one() -> None:
    settings = TreeSettings(decisions=2, episodes=4000, slip=1.0)
    episodes = collect_episodes(settings, np.random.default_rng(0))
    at_root = np.flatnonzero(episodes.node == 1)
    is_as_intended = episodes.node[at_root + 1] == 2 + episodes.action[at_root]
    assert is_as_intended.mean() == pytest.approx(0.5, abs=0.05)


def test_scores_of_many_functions_are_those_of_each_alone() -> None:
    settings = TreeSettings(functions=4, episodes=300)
    rng = np.random.default_rng(1)
    q, episodes = sample_q(settings, rng), collect_episodes(settings, rng)
    scores = score_functions(q, episodes, priors=(0.4, 1.0))
    lengths, success = episodes.lengths, episodes.success
    rewards = final_rewards(lengths, success)
    for index, table in enumerate(q):
        recorded = np.array([table[n - 1, a] for n, a in zip(episodes.node, episodes.action, strict=True)])
        greedy = np.array([max(table[n - 1]) for n in episodes.node])
        assert scores["td_error"][index] == pytest.approx(td_error(recorded, greedy, lengths, rewards))
        assert scores["mcc_error"][index] == pytest.approx(mcc_error(recorded, greedy, lengths, rewards))
        advantages = discounted_sum_of_advantages(recorded, greedy, lengths)
        assert scores["sum_of_advantages"][index] == pytest.approx(advantages)
        for column, prior in enumerate((0.4, 1.0)):
            assert scores["opc"][index, column] == pytest.approx(opc(recorded, lengths, success, prior=prior))
            assert scores["soft_opc"][index, column] == pytest.approx(soft_opc(recorded, lengths, success, prior=prior))


def test_the_same_seed_gives_the_same_run() -> None:
    settings = TreeSettings(functions=20, episodes=300)
    first, again, other = run_seed(settings, 3), run_seed(settings, 3), run_seed(settings, 4)
    assert first.spearman == again.spearman
    assert first.spearman != other.spearman


@pytest.fixture(scope="module")
def deterministic() -> TreeResult:
    return run_variant(TreeVariant("one success leaf"), TreeSettings(), range(20))


@pytest.mark.parametrize("metric", SPEARMAN_BANDS)
def test_mean_over_20_seeds_lies_in_its_band(deterministic: TreeResult, metric: str) -> None:
    low, high = SPEARMAN_BANDS[metric]
    assert deterministic.spearman[metric].shape == (20, 1)
    assert low <= deterministic.spearman[metric].mean() <= high


def test_magnitudes_that_differ_hurt_soft_opc_and_not_opc() -> None:
    settings, seeds = TreeSettings(functions=400), range(5)
    alike = run_variant(TreeVariant("alike"), settings, seeds)
    varying = run_variant(TreeVariant("varying", {"magnitude": "k"}), settings, seeds)
    # OPC only uses the order of Q values, so scaling a function changes nothing at all.
    assert varying.spearman["opc"] == pytest.approx(alike.spearman["opc"])
    assert varying.spearman["soft_opc"].mean() < alike.spearman["soft_opc"].mean() - 0.02
    assert varying.spearman["soft_opc"].mean() == pytest.approx(0.51, abs=0.05)


def test_smaller_priors_hurt_opc_until_it_is_constant() -> None:
    result = run_variant(VARIANTS[0], TreeSettings(functions=300), range(4))
    by_prior = dict(zip(result.priors, result.spearman["opc"].mean(axis=0), strict=True))
    assert np.isnan(by_prior[0.0])
    assert by_prior[0.5] == pytest.approx(0.44, abs=0.06)
    assert by_prior[1.0] > by_prior[0.5] > by_prior[0.2]


SMALL = ["reproduce", "tree", "--seeds", "2", "--functions", "12", "--episodes", "400"]


def test_the_verb_prints_every_variant_and_draws_every_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(variant.label in printed for variant in VARIANTS)
    plots = {path.name: path.read_bytes()[:4] for path in tmp_path.iterdir()}
    assert plots == dict.fromkeys(("tree_scatter.png", "tree_prior.png", "tree_spearman.png"), b"\x89PNG")


def test_the_verb_speaks_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw_tree", lambda results, folder: [])
    assert main([*SMALL, "--json", "--out", str(tmp_path)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [variant["label"] for variant in content["variants"]] == [variant.label for variant in VARIANTS]
    assert content["variants"][0]["spearman"]["opc"]["mean"][0] is None
    assert content["variants"][0]["published"]["opc"] == {"r_squared": 0.21, "spearman": 0.50}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decisions": 0}, "decisions is 0"),
        ({"functions": 2}, "functions is 2, expected at least 3"),
        ({"episodes": 0}, "episodes is 0"),
        ({"slip": 1.5}, r"slip is 1\.5"),
    ],
)
def test_settings_that_make_no_tree_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(errors.ScoreError, match=message):
        TreeSettings(**changes)  # type: ignore[arg-type]
