"""From a ranking and everything that has run in a lab to the expectations shown in its report."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from scipy.special import bdtr

from opc_ros.config import load_config
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.gate import SnapshotFacts, decide, predict_field
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.history import FILE_NAME, add_results, read_history
from opc_ros.episode import Episode
from opc_ros.errors import OpcError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import Forecast, forecast_ranking
from opc_ros.ranking.success_model import RATES
from opc_ros.reporting.outlook import CandidateOutlook, CheckedPrediction, Glimpse, Outlook
from opc_ros.scoring.scorer import ScoredSet
from opc_ros.workflows.ranking_archive import RankingArchive

TOLERANCE = 0.1  # if no gate gives another
MOST_CHECKED = 16  # each needs a fit of its own
GLIMPSES = 4  # of each kind
THUMBNAIL = 160  # pixels
WORDS = {Verdict.PASS: "pass", Verdict.INCONCLUSIVE: "open", Verdict.FAIL: "refused"}


@dataclass(frozen=True, slots=True)
class LabResults:
    """What has run, and which candidate is the champion."""

    results: dict[str, RealResult]  # by candidate id
    champion_id: str = ""


def read_lab_results(deployment: Path | None) -> LabResults:
    """Read from history and queue; a lab without either has no results."""
    if deployment is None or not deployment.is_dir():
        return LabResults({})
    history = read_history(deployment / FILE_NAME)
    try:
        with DeploymentFolder(deployment).look() as queue:
            champion = queue.champion()
            return LabResults(add_results(history, queue.real_results()), champion[0] if champion else "")
    except OpcError:
        return LabResults(dict(history))  # nobody has requested a robot yet


def look_ahead(
    ranking: Ranking,
    lab: LabResults,
    archive: RankingArchive,
    *,
    gate: Path | None = None,
    facts: Callable[[], SnapshotFacts] | None = None,
    now_ns: int = 0,
) -> Outlook:
    """Predicted success of every candidate; given a gate's rules, also its verdict as of now."""
    rules = load_config(gate, GateRules) if gate is not None else None
    tolerance = rules.within.tolerance if rules is not None else TOLERANCE
    forecast = predict_field(ranking, lab.results)
    before = _read_before(ranking, archive)
    places = {each.candidate_id: each.rank for each in before[0].candidates} if before else {}
    known = facts() if rules is not None and facts is not None else None
    rows = []
    for each in ranking.candidates:
        expected = forecast.expected(each.candidate_id)
        result = lab.results.get(each.candidate_id, RealResult(0, 0))
        decision = None
        if rules is not None and known is not None:
            decision = decide(
                each.candidate_id,
                ranking,
                known,
                rules,
                now_ns=now_ns,
                champion_id=lab.champion_id,
                real=lab.results,
                forecast=forecast,
            )
        rows.append(
            CandidateOutlook(
                expected=expected.mean,
                low=expected.low,
                high=expected.high,
                near=forecast.chance_within(each.candidate_id, tolerance),
                successes=result.successes,
                trials=result.trials,
                verdict=WORDS[decision.verdict] if decision else "",
                reason=_reason(decision),
                place_before=places.get(each.candidate_id),
            )
        )
    return Outlook(
        candidates=tuple(rows),
        tolerance=tolerance,
        gate=gate.name if gate is not None and known is not None else "",
        champion_id=lab.champion_id,
        before_id=before[0].ranking_id if before else "",
        before_made_at=before[1] if before else "",
        # Fitting each family is too slow for a scorer that ranks again and again.
        checked=_check_predictions(ranking, lab.results) if known is not None else (),
    )


def _reason(decision: Decision | None) -> str:
    return decision.reasons[0] if decision is not None else ""


def _read_before(ranking: Ranking, archive: RankingArchive) -> tuple[Ranking, str] | None:
    """The newest other ranking of the same kind, and when it was made."""
    try:
        for summary in archive.summaries():
            is_alike = (summary.metric, summary.scope) == (ranking.metric, ranking.scope)
            if is_alike and summary.ranking_id != ranking.ranking_id:
                return archive.read(summary.ranking_id), summary.made_at
    except OpcError:
        return None
    return None


def _check_predictions(ranking: Ranking, results: Mapping[str, RealResult]) -> tuple[CheckedPrediction, ...]:
    """Predict each candidate with results from the results of all other families; those with most episodes first."""
    families = {each.candidate_id: each.family or each.candidate_id for each in ranking.candidates}
    tried = [each for each in ranking.candidates if results.get(each.candidate_id, RealResult(0, 0)).trials]
    tried.sort(key=lambda each: -results[each.candidate_id].trials)
    if len({families[each.candidate_id] for each in tried}) < 3:
        return ()
    known: dict[str, Forecast] = {}
    found = []
    for each in tried[:MOST_CHECKED]:
        family = families[each.candidate_id]
        if family not in known:
            others = {name: result for name, result in results.items() if families.get(name) != family}
            counts = {name: (result.successes, result.trials) for name, result in others.items()}
            known[family] = forecast_ranking(ranking, counts)
        foreseen, result = known[family], results[each.candidate_id]
        expected = foreseen.expected(each.candidate_id)
        density = foreseen.predicted.marginal()[foreseen.index(each.candidate_id)]
        fewer, as_many = (
            float(density @ bdtr(count, result.trials, RATES)) if count >= 0 else 0.0
            for count in (result.successes - 1, result.successes)
        )
        found.append(
            CheckedPrediction(
                each.name,
                expected.low,
                expected.mean,
                expected.high,
                result.successes,
                result.trials,
                is_inside=as_many >= 0.025 and fewer <= 0.975,
            )
        )
    return tuple(found)


def take_glimpses(
    scored: ScoredSet, ranking: Ranking, read: Callable[[int], Episode], link: Callable[[str], str]
) -> tuple[Glimpse, ...]:
    """The failures and the successes that the leading candidate rates highest; `read` takes an index.

    These failures show where it is most wrong, and these successes what it can do.
    """
    row = next(index for index, each in enumerate(scored.candidates) if each.id == ranking.candidates[0].candidate_id)
    starts = np.concatenate([[0], np.cumsum(scored.lengths)[:-1]])
    means = np.add.reduceat(scored.q[row].astype(np.float64), starts) / scored.lengths
    found = []
    for outcome in (False, True):
        index = np.flatnonzero(scored.success == outcome)
        for at in index[np.argsort(-means[index], kind="stable")][:GLIMPSES].tolist():
            jpeg = _thumbnail(read, at)
            if jpeg:
                fact = scored.facts[at]
                found.append(Glimpse(fact.id, fact.robot, outcome, float(means[at]), jpeg, link(fact.id)))
    return tuple(found)


def _thumbnail(read: Callable[[int], Episode], index: int) -> str:
    """The last frame, scaled down; nothing if it cannot be read."""
    try:
        image = read(index).steps[-1].frame.decode()
    except OpcError:
        return ""
    scale = THUMBNAIL / max(image.shape[:2])
    if scale < 1.0:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    is_good, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 75])
    return base64.b64encode(data.tobytes()).decode() if is_good else ""


def link_from(folder: Path, file_of: Callable[[str], Path]) -> Callable[[str], str]:
    """A link to an episode's file from a page in this folder; empty if the file is not found."""

    def link(episode_id: str) -> str:
        try:
            return Path(os.path.relpath(file_of(episode_id), folder)).as_posix()
        except OpcError:
            return ""

    return link
