from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from opc_ros.policies.candidate import write_candidate
from opc_ros.ranking import rank_candidates
from opc_ros.scoring import compute_metric, ranking_metric_names
from opc_ros.scoring.bootstrap import bootstrap_scores, draw_resamples
from opc_ros.scoring.own_episodes import LEAST_LEFT, find_own_episodes, find_too_few
from opc_ros.scoring.q_cache import EpisodeFacts
from opc_ros.scoring.reweighting import Reweighter
from tests.policies.making import SMALL, make_candidate

METRICS = ranking_metric_names()


def facts_of(*policies: str) -> list[EpisodeFacts]:
    return [EpisodeFacts(f"e{n}", f"{n:064x}", 3, "arm1", policy, "discs", n) for n, policy in enumerate(policies)]


def make_set() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three candidates on 12 episodes; four episodes are the second candidate's own."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 5, 12)
    own = np.zeros((3, 12), bool)
    own[1, [0, 3, 7, 8]] = True
    return rng.normal(size=(3, lengths.sum())).round(1), lengths, np.arange(12) % 2 == 0, own


def test_a_candidate_is_not_judged_by_what_it_played_itself_under_any_name(tmp_path: Path) -> None:
    first = make_candidate(tmp_path / "a", image_size=32, **SMALL)
    other = make_candidate(tmp_path / "b", image_size=32, seed=1, **SMALL)
    renamed = dataclasses.replace(first.manifest, name="innocent")
    copy = write_candidate(tmp_path / "c", renamed, first.artifact_bytes)
    facts = facts_of("scripted", first.id, f"{first.id}+random0.1", other.id, "scripted")
    own = find_own_episodes([first, other, copy], facts, {other.id: {"e0"}})
    assert own.astype(int).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0]]


@pytest.mark.parametrize("metric", METRICS)
def test_scores_without_own_episodes_are_those_of_the_set_without_them(metric: str) -> None:
    q, lengths, success, own = make_set()
    rows = np.repeat(~own[1], lengths)
    expected = [
        compute_metric(metric, q[0], lengths, success),
        compute_metric(metric, q[1][rows], lengths[~own[1]], success[~own[1]]),
        compute_metric(metric, q[2], lengths, success),
    ]
    found = Reweighter(list(q), lengths, success, metric=metric, own=own).score(np.ones((1, 12)))
    assert found[0] == pytest.approx(expected, abs=1e-9)
    ranking = rank_candidates(
        dict(zip("abc", q, strict=True)),
        {key: key for key in "abc"},
        lengths,
        success,
        metric=metric,
        resamples=5,
        snapshot_id="5" * 64,
        own={"b": own[1]},
    )
    assert {c.candidate_id: c.score for c in ranking.candidates} == pytest.approx(
        dict(zip("abc", expected, strict=True))
    )
    assert {c.candidate_id: c.own_episodes for c in ranking.candidates} == {"a": 0, "b": 4, "c": 0}


@pytest.mark.parametrize("metric", METRICS)
def test_what_a_candidate_says_about_its_own_episodes_changes_no_resample(metric: str) -> None:
    q, lengths, success, own = make_set()
    boasting = q.copy()
    boasting[1][np.repeat(own[1], lengths)] = 1e6
    weights = draw_resamples((6, 6), 50, np.random.default_rng(1))
    weights[:, [0, 1, 6, 7]] += 1  # every resample keeps both outcomes for every candidate
    one, two = (
        Reweighter(list(values), lengths, success, metric=metric, own=own).score_successes_first(weights)
        for values in (q, boasting)
    )
    np.testing.assert_array_equal(one, two)
    assert bootstrap_scores(
        list(q), lengths, success, metric=metric, resamples=3, rng=np.random.default_rng(0)
    ).shape == (3, 3)


def test_a_candidate_with_too_few_episodes_left_is_left_out_with_the_figures() -> None:
    success = np.arange(100) % 2 == 0
    own = np.zeros(100, bool)
    assert find_too_few(own, success) == ""
    own[: 2 * LEAST_LEFT] = True
    assert find_too_few(own, success) == ""
    own[:70] = True
    assert find_too_few(own, success).startswith(
        "has played or was trained on 70 of 100 episodes, which leaves 15 successes and 15 failures"
    )
