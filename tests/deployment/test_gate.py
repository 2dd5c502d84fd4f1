from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opc_ros.bringup.lab import load_scheduler_rules
from opc_ros.config import load_config
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.gate import DAY_NS, AgreementRules, GateRules, SnapshotFacts, SnapshotRules, decide
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.errors import ConfigError
from opc_ros.ranking import RankedCandidate, Ranking

CONFIG = Path(__file__).parents[2] / "config"
NOW_NS = 1000 * DAY_NS

RULES = GateRules(
    metric="soft_opc",
    top_k=2,
    top_k_confidence=0.8,
    top_k_doubt=0.3,
    champion_margin=0.01,
    champion_confidence=0.7,
    champion_doubt=0.3,
    snapshot=SnapshotRules(episodes=100, successes=20, failures=20, age_days=7.0, robots=2),
    agreement=AgreementRules(candidates=4, episodes=10, spearman=0.5),
)
FACTS = SnapshotFacts("s" * 64, episodes=200, successes=80, newest_ns=NOW_NS - DAY_NS, robots=("arm1", "arm2"))


def make_ranking(*top_k_probability: float, **changes: object) -> Ranking:
    """Candidates a, b, c, ... with scores .30, .25, .20, ... and 9 in 10 for the better of any two."""
    count = len(top_k_probability)
    values: dict[str, object] = {
        "metric": "soft_opc",
        "prior": 1.0,
        "confidence": 0.95,
        "top_k": 2,
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
                candidate_id="abcdef"[index],
                name=f"policy {'abcdef'[index]}",
                score=0.30 - 0.05 * index,
                score_interval=(0.25 - 0.05 * index, 0.35 - 0.05 * index),
                rank=index + 1,
                rank_interval=(max(1, index), min(count, index + 2)),
                top_k_probability=probability,
            )
            for index, probability in enumerate(top_k_probability)
        ),
        "beats": tuple(tuple(0.5 if i == j else 0.9 if i < j else 0.1 for j in range(count)) for i in range(count)),
    }
    return Ranking(**(values | changes))  # type: ignore[arg-type]


RANKING = make_ranking(0.95, 0.75, 0.25, 0.05)


def verdict_of(decision: Decision, rule: str) -> Verdict:
    return next(finding.verdict for finding in decision.findings if finding.rule == rule)


def test_a_fresh_top_candidate_passes_with_its_reasons() -> None:
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="b")
    assert decision.verdict is Verdict.PASS
    assert "rank 1 of 4 (1 to 2 at 95%), in the top 2 with probability 0.95" in decision.reasons
    assert "scores +0.0500 against the champion, above it with probability 0.90" in decision.reasons


def test_doubt_about_the_top_k_is_left_to_a_person() -> None:
    decision = decide("b", RANKING, FACTS, RULES, now_ns=NOW_NS)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reasons == (
        "rank 2 of 4 (1 to 3 at 95%), in the top 2 with probability 0.75; the rules ask for 0.8, so a person decides",
    )


def test_a_candidate_outside_the_top_k_fails_and_may_explore() -> None:
    decision = decide("c", RANKING, FACTS, RULES, now_ns=NOW_NS)
    assert decision.verdict is Verdict.FAIL
    assert decision.is_explorable
    assert decision.reasons == (
        "rank 3 of 4 (2 to 4 at 95%), in the top 2 with probability 0.25; below 0.3 the rules say no",
    )


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
    decision = decide("a", RANKING, replace(FACTS, **change), RULES, now_ns=NOW_NS)  # type: ignore[arg-type]
    assert decision.verdict is Verdict.FAIL
    assert verdict_of(decision, rule) is Verdict.FAIL
    assert not decision.is_explorable
    assert any(sentence in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("episodes", "successes", "rule"), [(90, 40, "episodes"), (200, 19, "successes"), (200, 190, "failures")]
)
def test_a_snapshot_too_small_fails(episodes: int, successes: int, rule: str) -> None:
    ranking = make_ranking(0.95, 0.75, episodes=episodes, successes=successes)
    facts = replace(FACTS, episodes=episodes, successes=successes)
    decision = decide("a", ranking, facts, RULES, now_ns=NOW_NS)
    assert [finding.rule for finding in decision.findings if finding.verdict is Verdict.FAIL] == [rule]


def test_another_metric_or_top_k_than_the_rules_ask_for_fails() -> None:
    decision = decide("a", make_ranking(0.95, 0.9, 0.1, metric="opc"), FACTS, RULES, now_ns=NOW_NS)
    assert decision.reasons == ("ranked by opc; the rules ask for soft_opc",)
    decision = decide("a", make_ranking(0.95, 0.9, 0.1, top_k=3), FACTS, RULES, now_ns=NOW_NS)
    assert decision.reasons == ("ranked for the top 3; the rules ask for the top 2: rank again",)


def test_fewer_candidates_than_k_are_no_fault_of_the_ranking() -> None:
    decision = decide("a", make_ranking(1.0, top_k=1), FACTS, RULES, now_ns=NOW_NS)
    assert decision.verdict is Verdict.PASS


def test_an_unranked_candidate_fails() -> None:
    decision = decide("z", RANKING, FACTS, RULES, now_ns=NOW_NS)
    assert decision.reasons == ("candidate z is not among the 4 ranked: score it first",)


def test_a_candidate_behind_the_champion_or_ahead_by_too_little_fails() -> None:
    assert verdict_of(decide("b", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="a"), "champion") is Verdict.FAIL
    strict = replace(RULES, champion_margin=0.06)
    decision = decide("a", RANKING, FACTS, strict, now_ns=NOW_NS, champion_id="b")
    assert decision.verdict is Verdict.FAIL
    assert "the rules ask for +0.0600" in decision.reasons[0]


def test_the_champion_itself_need_not_beat_itself() -> None:
    assert decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="a").verdict is Verdict.PASS


def test_a_champion_missing_from_the_ranking_is_left_to_a_person() -> None:
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, champion_id="old")
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert not decision.is_explorable


def test_a_drop_of_agreement_with_real_success_closes_the_gate() -> None:
    rates = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5}
    good = {name: RealResult(round(rate * 100), 100) for name, rate in rates.items()}
    bad = {name: RealResult(round((1 - rate) * 100), 100) for name, rate in rates.items()}
    assert decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, real=good).verdict is Verdict.PASS
    decision = decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, real=bad)
    assert decision.verdict is Verdict.FAIL
    assert "agree with rank correlation -1.00; the rules ask for 0.50" in decision.reasons[0]
    few = {name: RealResult(0, 9) for name in rates}
    assert decide("a", RANKING, FACTS, RULES, now_ns=NOW_NS, real=few).verdict is Verdict.PASS


@pytest.mark.parametrize("case", ["no_champion", "agreement_unknown", "every_request"])
def test_a_person_is_asked_in_the_cases_the_rules_name(case: str) -> None:
    rules = replace(RULES, approval=(case,))  # type: ignore[arg-type]
    decision = decide("a", RANKING, FACTS, rules, now_ns=NOW_NS)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert len(decision.reasons) == 1
    assert not decision.is_explorable


def test_the_shipped_configuration_is_read_whole(tmp_path: Path) -> None:
    assert load_config(CONFIG / "gate.yaml", GateRules).top_k == 3
    assert load_scheduler_rules(CONFIG / "scheduler.yaml").ladder.full.episodes == 50
    assert len(load_scheduler_rules(CONFIG / "scheduler.yaml", CONFIG / "lab_seven.yaml").robots) == 8
    for name, kind in (("gate.yaml", GateRules), ("scheduler.yaml", SchedulerRules)):
        broken = tmp_path / name
        broken.write_text((CONFIG / name).read_text() + "unread: 1\n")
        with pytest.raises(ConfigError, match="unknown key 'unread'"):
            load_config(broken, kind)


def test_rules_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="in order"):
        replace(RULES, top_k_doubt=0.9)


def test_a_rung_nobody_serves_is_refused(tmp_path: Path) -> None:
    text = (CONFIG / "lab.yaml").read_text().replace("[reduced, full]", "[full]")
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match="no robot serves rung reduced"):
        load_scheduler_rules(CONFIG / "scheduler.yaml", tmp_path / "lab.yaml")
