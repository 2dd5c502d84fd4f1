"""Everything one scoring run found, as a value that becomes JSON and a page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.ranking.agreement import Agreement, measure_agreement
from opc_ros.ranking.ranking import Ranking
from opc_ros.ranking.uncertainty import SplitStability, measure_stability
from opc_ros.reporting.outlook import Glimpse, GroupScore, Outlook
from opc_ros.scoring import (
    Answers,
    all_metrics,
    score_without,
    split_scores,
)
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.metric import find_asked
from opc_ros.scoring.q_cache import SCORER_VERSION, EpisodeFacts
from opc_ros.scoring.scorer import ScoredSet

FORMAT = "opc-report/1"
BINS = 20
MOST_IN_GROUPS, MOST_GROUPS = 12, 12  # limits of the tables by robot and object set


@dataclass(frozen=True, slots=True)
class KnownSuccess:
    """How often a candidate succeeded when it was really run."""

    share: float  # 0 to 1
    episodes: int = 0  # 0: unknown


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """One candidate's figures besides its place in the ranking."""

    candidate_id: str
    name: str
    format: str
    architecture: str
    family: str
    training_run: str
    step: int | None
    seed: int | None
    data_snapshot: str
    git_revision: str
    metrics: dict[str, float]
    successes_per_bin: tuple[int, ...]  # counts of episodes by their mean Q
    failures_per_bin: tuple[int, ...]
    bin_range: tuple[float, float]
    known_success: KnownSuccess | None


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes that share a robot, a behaviour policy or an object set."""

    name: str
    episodes: int
    successes: int


@dataclass(frozen=True, slots=True)
class SetReport:
    """What the validation set holds."""

    transitions: int
    robots: tuple[Group, ...]
    behaviour_policies: tuple[Group, ...]
    object_sets: tuple[Group, ...]
    steps: tuple[Group, ...]  # 1 to 5, 6 to 10, ...
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class ScoringReport:
    """One scoring run."""

    made_at: str
    version: str
    scorer_version: str
    seed: int
    ranking: Ranking
    candidates: tuple[CandidateReport, ...]  # in the ranking's order
    validation_set: SetReport
    stability: SplitStability | None  # None with one candidate, or with too few episodes to split in half
    agreement: Agreement | None  # if true success is known for at least three
    agreement_note: str
    failed_candidates: tuple[Failure, ...]
    failed_episodes: tuple[Failure, ...]
    outlook: Outlook | None = None  # None where no outlook was requested
    glimpses: tuple[Glimpse, ...] = ()
    by_robot: tuple[GroupScore, ...] = ()  # if there are two or more
    by_object_set: tuple[GroupScore, ...] = ()

    def to_json(self) -> str:
        """The report for machines; the ranking in it has its own id."""
        content = {"format": FORMAT, "ranking_id": self.ranking.ranking_id, **dataclasses.asdict(self)}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)


def build_report(
    scored: ScoredSet,
    ranking: Ranking,
    *,
    known: Mapping[str, KnownSuccess],
    made_at: str,
    version: str,
    scorer_version: str = SCORER_VERSION,
    seed: int,
    unreadable: Sequence[Failure] = (),
    outlook: Outlook | None = None,
    glimpses: Sequence[Glimpse] = (),
) -> ScoringReport:
    """Gather one run's figures; `known` is by candidate id."""
    row_of = {candidate.id: row for row, candidate in enumerate(scored.candidates)}
    reports = [_report_candidate(scored, row_of[c.candidate_id], ranking.prior, known) for c in ranking.candidates]
    agreement, note = _agree(ranking, known)
    return ScoringReport(
        made_at=made_at,
        version=version,
        scorer_version=scorer_version,
        seed=seed,
        ranking=ranking,
        candidates=tuple(reports),
        validation_set=_report_set(scored),
        stability=_measure_halves(scored, ranking, seed),
        agreement=agreement,
        agreement_note=note,
        failed_candidates=(*unreadable, *scored.failed_candidates),
        failed_episodes=scored.failed_episodes,
        outlook=outlook,
        glimpses=tuple(glimpses),
        by_robot=_score_groups(scored, ranking, lambda fact: fact.robot),
        by_object_set=_score_groups(scored, ranking, lambda fact: fact.object_set),
    )


def _score_groups(scored: ScoredSet, ranking: Ranking, key: Callable[[EpisodeFacts], str]) -> tuple[GroupScore, ...]:
    """The ranking's score on each part of the set, for the top candidates; empty if there is only one group."""
    names = np.array([key(fact) for fact in scored.facts])
    groups = sorted(set(names.tolist()))
    if len(groups) < 2:
        return ()
    row_of = {candidate.id: row for row, candidate in enumerate(scored.candidates)}
    rows = [row_of[each.candidate_id] for each in ranking.candidates[:MOST_IN_GROUPS]]
    return tuple(
        GroupScore(
            group,
            tuple(_score_part(scored, row, names == group, ranking) for row in rows),
            int((names == group).sum()),
            int(scored.success[names == group].sum()),
        )
        for group in groups[:MOST_GROUPS]
    )


def _score_part(scored: ScoredSet, row: int, is_part: np.ndarray, ranking: Ranking) -> float | None:
    """None if the part has no success, no failure, or nothing that counts for the candidate."""
    is_out = ~is_part if scored.own is None else ~is_part | scored.own[row]
    outcomes = scored.success[~is_out]
    if not outcomes.size or outcomes.all() or not outcomes.any():
        return None
    answers = Answers(scored.q[row], scored.lengths, scored.success)
    try:
        return score_without(ranking.metric, answers, is_out, prior=ranking.prior)
    except ScoreError:
        return None


def _report_candidate(scored: ScoredSet, row: int, prior: float, known: Mapping[str, KnownSuccess]) -> CandidateReport:
    candidate = scored.candidates[row]
    manifest = candidate.manifest
    starts = np.concatenate([[0], np.cumsum(scored.lengths)[:-1]])
    means = np.add.reduceat(scored.q[row].astype(np.float64), starts) / scored.lengths
    low, high = (0.0, 1.0) if means.min() >= 0 and means.max() <= 1 else (float(means.min()), float(means.max()))
    counts = [np.histogram(means[scored.success == outcome], BINS, (low, high))[0] for outcome in (True, False)]
    return CandidateReport(
        candidate_id=candidate.id,
        name=candidate.name,
        format=manifest.format,
        architecture=manifest.architecture,
        family=manifest.provenance.family,
        training_run=manifest.provenance.training_run,
        step=manifest.provenance.step,
        seed=manifest.provenance.seed,
        data_snapshot=manifest.provenance.data_snapshot,
        git_revision=manifest.provenance.git_revision,
        metrics=compute_all_metrics(scored, row, prior),
        successes_per_bin=tuple(counts[0].tolist()),
        failures_per_bin=tuple(counts[1].tolist()),
        bin_range=(low, high),
        known_success=known.get(candidate.id),
    )


def compute_all_metrics(scored: ScoredSet, row: int, prior: float) -> dict[str, float]:
    """Every metric that these answers suffice for, by name; some also need Q at greedy actions."""
    answers = Answers(
        scored.q[row], scored.lengths, scored.success, None if scored.q_greedy is None else scored.q_greedy[row]
    )
    own = np.zeros(len(scored.facts), np.bool_) if scored.own is None else scored.own[row]
    return {
        name: score_without(name, answers, own, prior=prior)
        for name, metric in all_metrics().items()
        if find_asked(metric) == scored.asks and (answers.q_greedy is not None or not metric.needs_greedy)
    }


def _measure_halves(scored: ScoredSet, ranking: Ranking, seed: int) -> SplitStability | None:
    rarer = min(ranking.successes, ranking.episodes - ranking.successes)
    if len(ranking.candidates) < 2 or rarer < 2:
        return None
    rng = np.random.default_rng(seed)
    halves = split_scores(scored.q, scored.lengths, scored.success, metric=ranking.metric, prior=ranking.prior, rng=rng)
    return measure_stability(halves)


def _agree(ranking: Ranking, known: Mapping[str, KnownSuccess]) -> tuple[Agreement | None, str]:
    pairs = [(c.score, known[c.candidate_id].share) for c in ranking.candidates if c.candidate_id in known]
    if not pairs:
        return None, "no candidate's true success is known"
    try:
        return measure_agreement([score for score, _ in pairs], [share for _, share in pairs]), ""
    except ScoreError as error:
        return None, str(error)


def _report_set(scored: ScoredSet) -> SetReport:
    def group(key: Callable[[EpisodeFacts], Any]) -> tuple[Group, ...]:
        counts: dict[Any, list[int]] = {}
        for fact, is_success in zip(scored.facts, scored.success.tolist(), strict=True):
            count = counts.setdefault(key(fact), [0, 0])
            count[0] += 1
            count[1] += is_success
        return tuple(Group(str(name), *counts[name]) for name in sorted(counts))

    fives = group(lambda fact: (fact.steps - 1) // 5)
    stamps = [fact.started_ns for fact in scored.facts]
    return SetReport(
        transitions=int(scored.lengths.sum()),
        robots=group(lambda fact: fact.robot),
        behaviour_policies=group(lambda fact: fact.behaviour_policy),
        object_sets=group(lambda fact: fact.object_set),
        steps=tuple(
            dataclasses.replace(five, name=f"{5 * int(five.name) + 1} to {5 * int(five.name) + 5}") for five in fives
        ),
        first_ns=min(stamps),
        last_ns=max(stamps),
    )
