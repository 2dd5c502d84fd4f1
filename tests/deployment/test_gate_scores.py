"""The gate looks behind a score: at its snapshot, how it was ranked, hidden episodes, judges and action searches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.gate import DAY_NS, decide, predict_field
from opc_ros.scoring.search_look import SearchLook
from tests.deployment.ranked_field import FACTS, NOW_NS, RANKING, RULES, TRIED, make_ranking, sentence_of, verdict_of


@pytest.mark.parametrize(
    ("change", "rule", "sentence"),
    [
        ({"newest_ns": NOW_NS - 9 * DAY_NS}, "age", "snapshot's newest episode is 9.0 days old; the rules allow 7"),
        ({"newest_ns": NOW_NS + DAY_NS}, "age", "snapshot's newest episode is -1.0 days old; the rules allow 7"),
        ({"robots": ("arm1",)}, "robots", "snapshot has 1 robots; the rules ask for 2"),
        ({"snapshot_id": "t" * 64}, "same_snapshot", "the snapshot is tttttttttttt with 80 in 200: rank again"),
        ({"successes": 81}, "same_snapshot", "with 81 in 200: rank again"),
    ],
)
def test_a_snapshot_against_the_rules_fails(change: dict[str, object], rule: str, sentence: str) -> None:
    decision = decide("a", RANKING, replace(FACTS, **change), RULES, now_ns=NOW_NS, real=TRIED)  # type: ignore[arg-type]
    assert decision.verdict is Verdict.FAIL
    assert verdict_of(decision, rule) is Verdict.FAIL
    assert not decision.is_explorable
    assert any(sentence in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("episodes", "successes", "rule"), [(90, 40, "episodes"), (200, 19, "successes"), (200, 190, "failures")]
)
def test_a_snapshot_too_small_fails(episodes: int, successes: int, rule: str) -> None:
    ranking = replace(RANKING, episodes=episodes, successes=successes)
    facts = replace(FACTS, episodes=episodes, successes=successes)
    decision = decide("a", ranking, facts, RULES, now_ns=NOW_NS, real=TRIED)
    assert [finding.rule for finding in decision.findings if finding.verdict is Verdict.FAIL] == [rule]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metric": "opc"}, "ranked by opc; the rules ask for soft_opc: rank again"),
        ({"prior": 0.5}, "ranked with prior 0.5; the rules ask for 1: rank again"),
        ({"seed": 7}, "ranked with seed 7; the rules ask for 0: rank again"),
        ({"resamples": 99}, "ranked with 99 resamples; the rules ask for 100 or more: rank again"),
    ],
)
def test_a_ranking_made_to_suit_a_candidate_fails(change: dict[str, object], sentence: str) -> None:
    ranking = replace(RANKING, **change)  # type: ignore[arg-type]
    assert decide("a", ranking, FACTS, RULES, now_ns=NOW_NS, real=TRIED).reasons == (sentence,)


@pytest.mark.parametrize(
    ("chance", "verdict", "words"),
    [
        (1.0, Verdict.PASS, "agrees with the rest"),
        (0.005, Verdict.INCONCLUSIVE, "by luck with probability 0.005; does it recognise recorded frames? Below 0.01"),
        (1e-9, Verdict.FAIL, "Below 0.0001 the rules say no"),
    ],
)
def test_a_score_that_hidden_episodes_do_not_confirm_goes_to_a_person_or_fails(
    chance: float, verdict: Verdict, words: str
) -> None:
    plain = make_ranking(1.0, 0.5, hidden_episodes=100)
    first = replace(plain.candidates[0], hidden_chance=chance)
    ranking = replace(plain, candidates=(first, *plain.candidates[1:]))
    decision = decide(first.candidate_id, ranking, FACTS, RULES, now_ns=NOW_NS)
    (finding,) = [each for each in decision.findings if each.rule == "hidden"]
    assert finding.verdict is verdict
    assert words in finding.sentence
    assert f"the 100 of {ranking.episodes} episodes that are kept secret" in finding.sentence


def test_no_candidate_passes_on_a_judges_score_but_may_prove_itself_and_then_pass() -> None:
    judged, rules = replace(RANKING, metric="critic"), replace(RULES, metric="critic")
    others = {name: result for name, result in TRIED.items() if name != "a"}
    untried = decide("a", judged, FACTS, rules, now_ns=NOW_NS, champion_id="b", real=others)
    assert verdict_of(untried, "shown") is Verdict.INCONCLUSIVE
    assert sentence_of(untried, "shown") == (
        "is scored by a judge of its actions (critic) and has 0 real episodes of its own; the rules ask for 10"
    )
    assert untried.verdict is not Verdict.PASS
    assert untried.is_explorable
    tried = decide("a", judged, FACTS, rules, now_ns=NOW_NS, champion_id="b", real=TRIED)
    assert tried.verdict is Verdict.PASS
    assert "shown" not in {finding.rule for finding in decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS).findings}


def test_a_judges_score_alone_leaves_success_wider_open_than_a_score_of_q() -> None:
    by_q = predict_field(RANKING, {}).predicted.interval()
    by_judge = predict_field(replace(RANKING, metric="critic"), {}).predicted
    means = by_judge.mean()
    assert np.ptp(means) < 0.5 * np.ptp(predict_field(RANKING, {}).predicted.mean())
    assert np.ptp(by_judge.interval(), axis=1).min() > 0.9
    assert by_q.shape == (15, 2)


@pytest.mark.parametrize(
    ("look", "verdict", "words"),
    [
        (SearchLook(is_standard=True), Verdict.PASS, "uses the standard action search"),
        (SearchLook(False, 16, 0.15), Verdict.PASS, "in 16 recorded states its own action search misses 15% of what"),
        (
            SearchLook(False, 16, 0.3),
            Verdict.INCONCLUSIVE,
            "misses 30% of what a thorough one gains over random actions",
        ),
        (SearchLook(False, 16, 0.9), Verdict.FAIL, "what would run is not what was scored; above 40% the rules say no"),
        (SearchLook(False, 7, 0.0), Verdict.INCONCLUSIVE, "was checked in 7 states; the rules ask for 8"),
        (
            SearchLook(False, 16, 0.1, 0.02),
            Verdict.INCONCLUSIVE,
            "its actions go 2% as far as the task allows; below 25%",
        ),
        (None, Verdict.FAIL, "score it again with this version"),
    ],
)
def test_good_weights_with_a_poor_action_search_go_to_a_person_or_fail(
    look: SearchLook | None, verdict: Verdict, words: str
) -> None:
    plain = make_ranking(1.0, 0.5)
    ranking = replace(plain, candidates=tuple(replace(each, search=look) for each in plain.candidates))
    decision = decide("a", ranking, FACTS, RULES, now_ns=NOW_NS)
    (finding,) = [each for each in decision.findings if each.rule == "search"]
    assert finding.verdict is verdict
    assert words in finding.sentence
