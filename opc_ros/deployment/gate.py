"""The gate: from a ranking, rules and the time to pass, fail or inconclusive, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from opc_ros.deployment.decision import Decision, Finding, RealResult, Verdict
from opc_ros.errors import ScoreError
from opc_ros.ranking import RankedCandidate, Ranking, spearman

DAY_NS = 86_400 * 1_000_000_000
AHEAD_DAYS = 1 / 1440  # a robot's clock may be a minute ahead; more is no fresh episode but a wrong stamp
ApprovalCase = Literal["no_champion", "agreement_unknown", "every_request"]


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """The smallest validation set a ranking may rest on."""

    episodes: int
    successes: int
    failures: int
    age_days: float  # of its newest episode, at most
    robots: int  # how many different ones it must cover
    tag: str = ""  # the ranking must rest on the snapshot with this tag; empty: on whichever it names


@dataclass(frozen=True, slots=True)
class AgreementRules:
    """How well scores must have predicted real success."""

    candidates: int  # from so many on it is judged; fewer leave it unknown
    episodes: int  # a candidate counts from so many real ones on
    spearman: float  # below this the gate is closed

    def __post_init__(self) -> None:
        if self.candidates < 3 or self.episodes < 1 or not -1.0 <= self.spearman <= 1.0:
            raise ValueError("agreement: expected candidates from 3, episodes from 1, spearman from -1 to 1")


@dataclass(frozen=True, slots=True)
class GateRules:
    """Everything in config/gate.yaml."""

    metric: str
    top_k: int
    top_k_confidence: float  # probability of being in the top k from which on it passes
    top_k_doubt: float  # below it fails; in between a person decides
    champion_margin: float  # by how much the champion's score must be exceeded
    champion_confidence: float  # probability of scoring above the champion from which on it passes
    champion_doubt: float
    snapshot: SnapshotRules
    agreement: AgreementRules
    approval: tuple[ApprovalCase, ...] = field(default=())  # cases in which a person must approve

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}, expected at least 1")
        for name in ("top_k", "champion"):
            doubt, confidence = getattr(self, f"{name}_doubt"), getattr(self, f"{name}_confidence")
            if not 0.0 <= doubt <= confidence <= 1.0:
                raise ValueError(f"{name}_doubt {doubt} and {name}_confidence {confidence}: expected 0 to 1, in order")


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """What the gate must know of the validation set."""

    snapshot_id: str
    episodes: int
    successes: int
    newest_ns: int  # when its newest episode began
    robots: tuple[str, ...]

    @property
    def failures(self) -> int:
        return self.episodes - self.successes


def decide(
    candidate_id: str,
    ranking: Ranking,
    snapshot: SnapshotFacts,
    rules: GateRules,
    *,
    now_ns: int,
    champion_id: str = "",
    real: Mapping[str, RealResult] | None = None,
) -> Decision:
    """Whether a candidate may go to robots; the same arguments always give the same answer."""
    placed = [candidate for candidate in ranking.candidates if candidate.candidate_id == candidate_id]
    findings = [*_check_ranking(ranking, snapshot, rules), *_check_snapshot(snapshot, rules.snapshot, now_ns)]
    if not placed:
        sentence = f"candidate {candidate_id[:12]} is not among the {len(ranking.candidates)} ranked: score it first"
        findings.append(Finding("ranked", Verdict.FAIL, sentence))
    else:
        findings.append(_check_place(placed[0], ranking, rules))
        findings.append(_check_champion(placed[0], ranking, rules, champion_id))
    findings.append(_check_agreement(ranking, rules, real or {}))
    if "every_request" in rules.approval:
        findings.append(Finding("approval", Verdict.INCONCLUSIVE, "the rules ask a person about every request"))
    return Decision(candidate_id, ranking.ranking_id, tuple(findings))


def _check_ranking(ranking: Ranking, snapshot: SnapshotFacts, rules: GateRules) -> Iterator[Finding]:
    yield _finding(
        "metric",
        ranking.metric == rules.metric,
        f"ranked by {ranking.metric}",
        f"the rules ask for {rules.metric}",
    )
    is_same = (ranking.snapshot_id, ranking.episodes, ranking.successes) == (
        snapshot.snapshot_id,
        snapshot.episodes,
        snapshot.successes,
    )
    yield _finding(
        "same_snapshot",
        is_same,
        f"ranked on snapshot {ranking.snapshot_id[:12]} with {ranking.successes} successes in {ranking.episodes}",
        f"the snapshot is {snapshot.snapshot_id[:12]} with {snapshot.successes} in {snapshot.episodes}: rank again",
    )
    asked = min(rules.top_k, len(ranking.candidates))
    yield _finding(
        "same_top_k",
        ranking.top_k == asked,
        f"ranked for the top {ranking.top_k}",
        f"the rules ask for the top {asked}: rank again",
    )


def _check_snapshot(snapshot: SnapshotFacts, rules: SnapshotRules, now_ns: int) -> Iterator[Finding]:
    for name, found, least in (
        ("episodes", snapshot.episodes, rules.episodes),
        ("successes", snapshot.successes, rules.successes),
        ("failures", snapshot.failures, rules.failures),
        ("robots", len(snapshot.robots), rules.robots),
    ):
        yield _finding(name, found >= least, f"snapshot has {found} {name}", f"the rules ask for {least}")
    age_days = (now_ns - snapshot.newest_ns) / DAY_NS
    yield _finding(
        "age",
        -AHEAD_DAYS <= age_days <= rules.age_days,
        f"snapshot's newest episode is {age_days:.1f} days old",
        f"the rules allow {rules.age_days:g}",
    )


def _check_place(candidate: RankedCandidate, ranking: Ranking, rules: GateRules) -> Finding:
    best, worst = candidate.rank_interval
    sentence = (
        f"rank {candidate.rank} of {len(ranking.candidates)} ({best} to {worst} at {ranking.confidence:.0%}), "
        f"in the top {ranking.top_k} with probability {candidate.top_k_probability:.2f}"
    )
    return _probable("top_k", candidate.top_k_probability, rules.top_k_confidence, rules.top_k_doubt, sentence)


def _check_champion(candidate: RankedCandidate, ranking: Ranking, rules: GateRules, champion_id: str) -> Finding:
    if champion_id == candidate.candidate_id:
        return Finding("champion", Verdict.PASS, "is the champion")
    ranked = {each.candidate_id: each for each in ranking.candidates}
    if champion_id not in ranked:
        what = "there is no champion yet" if not champion_id else "the champion is not in this ranking"
        needs_person = champion_id or "no_champion" in rules.approval
        verdict = Verdict.INCONCLUSIVE if needs_person else Verdict.PASS
        rule = "champion_known" if needs_person else "champion"
        return Finding(rule, verdict, f"{what}, so nothing to compare with")
    lead = candidate.score - ranked[champion_id].score
    probability = ranking.probability_beats(candidate.candidate_id, champion_id)
    sentence = f"scores {lead:+.4f} against the champion, above it with probability {probability:.2f}"
    if lead < rules.champion_margin:
        return Finding("champion", Verdict.FAIL, f"{sentence}; the rules ask for {rules.champion_margin:+.4f}")
    return _probable("champion", probability, rules.champion_confidence, rules.champion_doubt, sentence)


def _check_agreement(ranking: Ranking, rules: GateRules, real: Mapping[str, RealResult]) -> Finding:
    tried = [
        (candidate.score, real[candidate.candidate_id].rate)
        for candidate in ranking.candidates
        if candidate.candidate_id in real and real[candidate.candidate_id].trials >= rules.agreement.episodes
    ]
    asked = f"{rules.agreement.candidates} with {rules.agreement.episodes} real episodes each"
    if len(tried) < rules.agreement.candidates:
        verdict = Verdict.INCONCLUSIVE if "agreement_unknown" in rules.approval else Verdict.PASS
        sentence = f"whether scores predict real success is unknown: {len(tried)} candidates tried, {asked} would tell"
        return Finding("agreement", verdict, sentence)
    try:
        found = spearman([score for score, _ in tried], [rate for _, rate in tried])
    except ScoreError as error:
        return Finding("agreement", Verdict.INCONCLUSIVE, f"scores cannot be compared with real success: {error}")
    return _finding(
        "agreement",
        found >= rules.agreement.spearman,
        f"scores and real success of {len(tried)} candidates agree with rank correlation {found:.2f}",
        f"the rules ask for {rules.agreement.spearman:.2f}: the gate stays closed until scores predict again",
    )


def _finding(rule: str, is_met: bool, found: str, asked: str) -> Finding:
    return Finding(rule, Verdict.PASS, found) if is_met else Finding(rule, Verdict.FAIL, f"{found}; {asked}")


def _probable(rule: str, probability: float, confidence: float, doubt: float, sentence: str) -> Finding:
    if probability >= confidence:
        return Finding(rule, Verdict.PASS, sentence)
    if probability < doubt:
        return Finding(rule, Verdict.FAIL, f"{sentence}; below {doubt:g} the rules say no")
    asked = f"{sentence}; the rules ask for {confidence:g}, so a person decides"
    return Finding(rule, Verdict.INCONCLUSIVE, asked)
