"""Decision 14's rule on worlds small enough to judge by eye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opc_ros.experiments.rule_of_choice import KeptWorld, apply_rule, main
from opc_ros.experiments.score_variants import BASE

SUCCESS = [0.9, 0.7, 0.5, 0.3, 0.1]
RUNS = [["a"], ["b"], ["c"], ["d"], ["a", "b"]]
SWAPPED = [4.0, 5.0, 3.0, 2.0, 1.0]  # the second best first: regret@1 of 20 points, ξ 0.9
IN_ORDER = [5.0, 4.0, 3.0, 2.0, 1.0]


def world(name: str = "test", **scores: list[float]) -> dict[str, Any]:
    return {"world": name, "success": SUCCESS, "runs": RUNS, "scores": {BASE: SWAPPED, **scores}}


def test_a_challenger_that_orders_worse_anywhere_is_dropped_at_the_first_step() -> None:
    backwards = [1.0, 2.0, 3.0, 4.0, 5.0]
    worlds = [KeptWorld.of(world(weighted_auc=IN_ORDER)), KeptWorld.of(world("train", weighted_auc=backwards))]
    verdicts, best = apply_rule(worlds, {})
    assert verdicts[0].dropped == "step 1: ξ lower by train 1.900"  # 0.9 there, -1 here
    assert best == ""


def test_pong_and_the_tree_count_for_the_first_step_and_two_hundredths_are_forgiven() -> None:
    worlds = [KeptWorld.of(world(weighted_auc=IN_ORDER))]
    assert apply_rule(worlds, {"tree": {BASE: 0.57, "weighted_auc": 0.55}})[1] == "weighted_auc"
    verdicts, best = apply_rule(worlds, {"tree": {BASE: 0.57, "weighted_auc": 0.54}})
    assert (verdicts[0].dropped, best) == ("step 1: ξ lower by tree 0.030", "")


def test_a_challenger_whose_first_place_is_worse_without_many_runs_is_dropped_at_the_second_step() -> None:
    document = world(episode_auc=[4.0, 5.0, 3.0, 2.0, 1.0]) | {"success": [0.9, 0.89, 0.5, 0.3, 0.1]}
    document["scores"][BASE] = [5.0, 3.0, 4.0, 2.0, 1.0]  # ξ 0.9 like the challenger's, but the best comes first
    verdicts, best = apply_rule([KeptWorld.of(document)], {})
    # Without c or d the challenger's first place still costs a point; without b neither's does.
    assert verdicts[0].worse_without_a_run == 0.5
    assert verdicts[0].dropped == "step 2: regret@1 is larger without 50% of the runs"
    assert best == ""


def test_of_those_left_the_smallest_regret_wins_and_then_the_highest_spearman() -> None:
    near = [5.0, 4.0, 3.0, 1.0, 2.0]  # no regret, ξ 0.9
    worlds = [KeptWorld.of(world(soft_opc_on_ranks=SWAPPED, episode_auc=near, weighted_auc=IN_ORDER))]
    verdicts, best = apply_rule(worlds, {})
    assert {one.name: one.mean_regret for one in verdicts} == pytest.approx(
        {"soft_opc_on_ranks": 10.0, "episode_auc": 0.0, "weighted_auc": 0.0}
    )
    assert [one.dropped for one in verdicts] == ["", "", ""]
    assert best == "weighted_auc"


def test_a_challenger_that_was_not_measured_in_a_world_is_not_judged() -> None:
    worlds = [KeptWorld.of(world(weighted_auc=IN_ORDER)), KeptWorld.of(world("train"))]
    assert apply_rule(worlds, {}) == ([], "")


def test_averages_leave_with_any_of_their_members() -> None:
    kept = KeptWorld.of(world())
    assert kept.regret(BASE, 1) == pytest.approx(20.0)
    assert kept.regret(BASE, 1, without="b") == 0.0
    np.testing.assert_array_equal([("b" not in run) for run in kept.runs], [True, False, True, True, False])


def test_the_command_reads_what_others_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "test.json", tmp_path / "tree.json"]
    files[0].write_text(json.dumps(world(weighted_auc=IN_ORDER)))
    files[1].write_text(json.dumps({"levels": {"tree": {BASE: 0.5, "weighted_auc": 0.6}}}))
    assert main([str(path) for path in files]) == 0
    assert "| weighted_auc | 0% | 0.00 | 1.000 | **the challenger** |" in capsys.readouterr().out
