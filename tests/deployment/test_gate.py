from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opc_ros.bringup.lab import load_scheduler_rules
from opc_ros.config import load_config
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.gate import DAY_NS, SnapshotFacts, decide, predict_field
from opc_ros.deployment.gate_rules import (
    AgreementRules,
    FloorRules,
    GateRules,
    SearchRules,
    SnapshotRules,
    TopKRules,
    WithinRules,
)
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.errors import ConfigError
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.scoring.search_look import SearchLook

CONFIG = Path(__file__).parents[2] / "config"
NOW_NS = 1000 * DAY_NS

RULES = GateRules(
    metric="soft_opc",
    within=WithinRules(tolerance=0.1, confidence=0.8, doubt=0.1),
    floor=FloorRules(success=0.3, confidence=0.8, doubt=0.2),
    snapshot=SnapshotRules(episodes=100, successes=20, failures=20, age_days=7.0, robots=2),
    agreement=AgreementRules(spearman=0.5),
    resamples=100,
)
FACTS = SnapshotFacts("s" * 64, episodes=200, successes=80, newest_ns=NOW_NS - DAY_NS, robots=("arm1", "arm2"))
NAMES = "abcdefghijklmnop"
# Success falls with the score from 90 to 20 %; each was tried a hundred times.
TRIED = {name: RealResult(90 - 5 * index, 100) for index, name in enumerate(NAMES[:15])}


def make_ranking(*top_k_probability: float, **changes: object) -> Ranking:
    """Candidates a, b, c, ... with scores .30, .25, .20, ... and 9 in 10 for the better of any two."""
    count = len(top_k_probability)
    values: dict[str, object] = {
        "metric": "soft_opc",
        "prior": 1.0,
        "confidence": 0.95,
        "top_k": min(2, count),
        "resamples": 100,
        "seed": 0,
        "q_digest": "0" * 64,
        "scope": "registry",
        "left_out": (),
        "snapshot_id": "s" * 64,
        "episodes": 200,
        "successes": 80,
        "candidates": tuple(
            RankedCandidate(
                candidate_id=NAMES[index],
                name=f"policy {NAMES[index]}",
                score=0.30 - 0.05 * index,
                score_interval=(0.25 - 0.05 * index, 0.35 - 0.05 * index),
                rank=index + 1,
                rank_interval=(max(1, index), min(count, index + 2)),
                top_k_probability=probability,
                search=SearchLook(is_standard=True),
            )
            for index, probability in enumerate(top_k_probability)
        ),
        "beats": tuple(tuple(0.5 if i == j else 0.9 if i < j else 0.1 for j in range(count)) for i in range(count)),
    }
    return Ranking(**(values | changes))  # type: ignore[arg-type]


RANKING = make_ranking(0.95, 0.75, 0.25, *(0.05 for _ in range(12)))


def verdict_of(decision: Decision, rule: str) -> Verdict:
    return next(finding.verdict for finding in decision.findings if finding.rule == rule)


def sentence_of(decision: Decision, rule: str) -> str:
    return next(finding.sentence for finding in decision.findings if finding.rule == rule)


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


def test_the_shipped_configuration_is_read_whole(tmp_path: Path) -> None:
    assert load_config(CONFIG / "gate.yaml", GateRules).metric == "soft_opc_over_spread"
    assert load_scheduler_rules(CONFIG / "scheduler.yaml").ladder.full.episodes == 50
    assert len(load_scheduler_rules(CONFIG / "scheduler.yaml", CONFIG / "lab_seven.yaml").robots) == 8
    for name, kind in (("gate.yaml", GateRules), ("scheduler.yaml", SchedulerRules)):
        broken = tmp_path / name
        broken.write_text((CONFIG / name).read_text() + "unread: 1\n")
        with pytest.raises(ConfigError, match="unknown key 'unread'"):
            load_config(broken, kind)


def test_rules_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="in order"):
        WithinRules(tolerance=0.1, confidence=0.5, doubt=0.9)


def test_a_rung_nobody_serves_is_refused(tmp_path: Path) -> None:
    text = (CONFIG / "lab.yaml").read_text().replace("[reduced, full]", "[full]")
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match="no robot serves rung reduced"):
        load_scheduler_rules(CONFIG / "scheduler.yaml", tmp_path / "lab.yaml")


def test_a_floor_that_no_result_can_trigger_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    text = (CONFIG / "scheduler.yaml").read_text().replace("success_floor: 0.3", "success_floor: 0.2", 1)
    (tmp_path / "scheduler.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"not even 0 successes in 20 episodes would show less than 20%; set .* 0.29"):
        load_scheduler_rules(tmp_path / "scheduler.yaml")


@pytest.mark.parametrize("file", ["gate.yaml", "gate_demo.yaml"])
@pytest.mark.parametrize("scores", [(0.3, 0.25, 0.2), (0.9, 0.0, 0.0), (0.001, 0.0, -0.001), (0.0, 0.0, 0.0)])
def test_three_candidates_of_which_nothing_has_run_never_pass_whatever_their_scores(
    file: str, scores: tuple[float, float, float]
) -> None:
    """First of three untrained networks is no evidence: with ranks alone, all three would be in the top three."""
    rules = replace(load_config(CONFIG / file, GateRules), metric="soft_opc", resamples=100)
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


@pytest.mark.parametrize("values", [{"states": 0}, {"person": 0.5, "fail": 0.4}, {"fail": 1.1}, {"reach": 2.0}])
def test_rules_of_action_searches_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="search: "):
        SearchRules(**values)  # type: ignore[arg-type]


def test_rules_cannot_let_a_judges_word_pass() -> None:
    with pytest.raises(ValueError, match="judged_episodes is 0, expected 1 or more"):
        replace(RULES, judged_episodes=0)
