"""Who passes the gate, who may explore, who goes to a person and who fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opc_ros.bringup.config_files import find_config
from opc_ros.config import load_config
from opc_ros.deployment.decision import RealResult, Verdict
from opc_ros.deployment.gate import decide
from opc_ros.deployment.gate_rules import GateRules, TopKRules
from tests.deployment.ranked_field import (
    FACTS,
    NAMES,
    NOW_NS,
    RANKING,
    RULES,
    TRIED,
    make_ranking,
    sentence_of,
    verdict_of,
)


def test_a_candidate_shown_to_be_the_best_passes_with_its_reasons() -> None:
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="b", real=TRIED)
    assert decision.verdict is Verdict.PASS
    # 90 of 100 alone give a Beta(91, 11), 89 % (83 to 94); neighbours at 85 and 80 pull it towards the line.
    assert "expected 87 % (83 to 91)" in sentence_of(decision, "within")
    assert "within 10 points of the best of 15 with probability 1.00" in sentence_of(decision, "within")
    assert "better than the champion, of which 8" in sentence_of(decision, "champion")


def test_a_candidate_far_below_the_best_or_below_the_floor_fails_and_is_not_even_explored() -> None:
    middling = decide("h", RANKING, FACTS, RULES, now_ns=NOW_NS, real=TRIED)
    assert middling.verdict is Verdict.FAIL
    assert verdict_of(middling, "within") is Verdict.FAIL
    assert not middling.is_explorable
    poor = decide("o", RANKING, FACTS, RULES, now_ns=NOW_NS, real=TRIED)
    assert verdict_of(poor, "floor") is Verdict.FAIL
    assert not poor.is_explorable


def test_an_untried_candidate_with_a_good_score_is_left_open_and_may_explore() -> None:
    tried = {name: RealResult(round(TRIED[name].successes / 10), 10) for name in "dfhjln"}
    decision = decide("b", RANKING, FACTS, RULES, now_ns=NOW_NS, real=tried)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.is_explorable
    assert "the rules ask for 0.8" in decision.reasons[0]


def test_untrained_candidates_that_are_alone_in_the_registry_do_not_pass() -> None:
    ranking = make_ranking(1.0, 1.0, 1.0, top_k=2)
    for name in "abc":
        assert decide(name, ranking, FACTS, RULES, now_ns=NOW_NS).verdict is not Verdict.PASS


def test_a_part_of_the_field_passes_nobody() -> None:
    decision = decide("a", replace(RANKING, scope="selection"), FACTS, RULES, now_ns=NOW_NS, real=TRIED)
    assert decision.reasons == (
        "15 candidates are ranked, those that were asked for; score every registered candidate",
    )
    few = replace(RULES, candidates=16)
    assert decide("a", RANKING, FACTS, few, now_ns=NOW_NS, real=TRIED).verdict is Verdict.FAIL


def test_near_copies_of_the_best_pass_beside_it() -> None:
    copies = {name: RealResult(90, 100) if index < 7 else TRIED[name] for index, name in enumerate(TRIED)}
    for name in "abcdefg":
        assert decide(name, RANKING, FACTS, RULES, now_ns=NOW_NS, real=copies).verdict is Verdict.PASS


def test_a_rank_may_be_asked_for_as_well() -> None:
    rules = replace(RULES, top_k=TopKRules(k=2, confidence=0.8, doubt=0.3))
    assert decide("a", RANKING, FACTS, rules, now_ns=NOW_NS, real=TRIED).verdict is Verdict.PASS
    decision = decide("b", RANKING, FACTS, rules, now_ns=NOW_NS, real=TRIED)
    assert decision.reasons == (
        "rank 2 of 15 (1 to 3 at 95%), its score is in the top 2 with probability 0.75; the rules ask for 0.8",
    )
    other = decide("a", replace(RANKING, top_k=3), FACTS, rules, now_ns=NOW_NS, real=TRIED)
    assert verdict_of(other, "same_top_k") is Verdict.FAIL


def test_an_unranked_candidate_fails() -> None:
    decision = decide("z", RANKING, FACTS, RULES, now_ns=NOW_NS, real=TRIED)
    assert decision.reasons == ("candidate z is not among the 15 ranked: score it first",)


def test_a_champion_missing_from_the_ranking_is_left_to_a_person() -> None:
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="old", real=TRIED)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert not decision.is_explorable


def test_scores_that_surely_do_not_predict_close_the_gate_and_unknown_does_not() -> None:
    backwards = {name: RealResult(20 + 5 * index, 100) for index, name in enumerate(NAMES[:15])}
    decision = decide("o", RANKING, FACTS, RULES, now_ns=NOW_NS, real=backwards)
    assert verdict_of(decision, "agreement") is Verdict.FAIL
    assert "the gate stays closed until scores predict again" in sentence_of(decision, "agreement")
    # Only the five best-scored, 20 episodes each: too narrow a range to conclude that scores do not predict.
    counts = (16, 18, 15, 17, 16)
    few = {name: RealResult(count, 20) for name, count in zip(NAMES, counts, strict=False)}
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, real=few)
    assert verdict_of(decision, "agreement") is Verdict.PASS
    asked = replace(RULES, approval=("agreement_unknown",))
    assert verdict_of(decide("a", RANKING, FACTS, asked, now_ns=NOW_NS), "agreement") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("case", ["no_champion", "agreement_unknown", "every_request"])
def test_a_person_is_asked_in_the_cases_the_rules_name(case: str) -> None:
    rules = replace(RULES, approval=(case,))  # type: ignore[arg-type]
    real = {} if case == "agreement_unknown" else TRIED
    decision = decide("a", RANKING, FACTS, rules, now_ns=NOW_NS, real=real)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert not decision.is_explorable


@pytest.mark.parametrize("file", ["gate.yaml", "gate_demo.yaml"])
@pytest.mark.parametrize("scores", [(0.3, 0.25, 0.2), (0.9, 0.0, 0.0), (0.001, 0.0, -0.001), (0.0, 0.0, 0.0)])
def test_three_candidates_of_which_nothing_has_run_never_pass_whatever_their_scores(
    file: str, scores: tuple[float, float, float]
) -> None:
    """First of three untrained networks is no evidence: with ranks alone, all three would be in the top three."""
    rules = replace(load_config(find_config(file), GateRules), metric="soft_opc", resamples=100)
    facts = replace(FACTS, episodes=1000, successes=400)
    ranking = make_ranking(1.0, 1.0, 1.0, top_k=3, episodes=1000, successes=400)
    placed = tuple(
        replace(each, score=score, score_interval=(score - 0.1, score + 0.1))
        for each, score in zip(ranking.candidates, scores, strict=True)
    )
    for name in "abc":
        decision = decide(name, replace(ranking, candidates=placed), facts, rules, now_ns=NOW_NS)
        assert decision.verdict is Verdict.INCONCLUSIVE
        assert verdict_of(decision, "floor") is Verdict.INCONCLUSIVE
