"""A ranked field of fifteen candidates, each of them tried, and rules by which a gate decides about it."""

from __future__ import annotations

from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.gate import DAY_NS, SnapshotFacts
from opc_ros.deployment.gate_rules import (
    AgreementRules,
    FloorRules,
    GateRules,
    SnapshotRules,
    WithinRules,
)
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.scoring.search_look import SearchLook

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
