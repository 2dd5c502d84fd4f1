"""One scoring run from candidates and episodes to a ranking and its report on disk."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opc_ros.deployment.signed_ranking import ENVELOPE_NAME
from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.answers import choose_probes
from opc_ros.ranking.rank import rank_candidates
from opc_ros.ranking.ranking import LeftOutCandidate, Ranking, Scope
from opc_ros.reporting.outlook import Glimpse, Outlook
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import KnownSuccess, ScoringReport, build_report
from opc_ros.scoring import find_ranking_metric
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.hidden_part import find_hidden
from opc_ros.scoring.judging import score_by_judge
from opc_ros.scoring.metric import find_asked
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import EpisodeSource
from opc_ros.scoring.value_rows import RowsById
from opc_ros.workflows.ranking_archive import PAGE, RANKING, REPORT, RankingArchive

Look = Callable[[ScoredSet, Ranking], tuple[Outlook | None, Sequence[Glimpse]]]


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How to order candidates once their Q values are known."""

    metric: str = "soft_opc_over_spread"
    prior: float = 1.0
    top_k: int = 3
    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ScoringRun:
    """What one run found, and where it was written."""

    scored: ScoredSet
    ranking: Ranking
    report: ScoringReport
    folder: Path
    is_published: bool = False  # whether the gate reads this ranking now
    why_not_published: str = ""

    @property
    def envelope(self) -> str:
        """The scorer's signature on the ranking; empty if it has no key or did not publish it."""
        path = self.folder / ENVELOPE_NAME
        return path.read_text(encoding="utf-8") if self.is_published and path.is_file() else ""

    @property
    def page(self) -> Path:
        return self.folder / PAGE

    @property
    def document(self) -> Path:
        return self.folder / REPORT

    @property
    def ranking_file(self) -> Path:
        return self.folder / RANKING

    @property
    def is_complete(self) -> bool:
        """False if a candidate or an episode had to be left out."""
        return not self.report.failed_candidates and not self.report.failed_episodes


def score_and_rank(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    q_cache: QCache,
    engine: Engine,
    options: RankingOptions,
    archive: RankingArchive,
    *,
    scope: Scope = "selection",
    has_greedy: bool = False,
    known: Mapping[str, KnownSuccess] | None = None,
    unreadable: Sequence[Failure] = (),
    trained_on: Mapping[str, Collection[str]] | None = None,
    hidden_secret: bytes = b"",
    look: Look | None = None,
    now: Callable[[], datetime.datetime],
    is_cancelled: Callable[[], bool] = lambda: False,
    report_scoring: Report = ignore_progress,
    report_ranking: Report = ignore_progress,
) -> ScoringRun:
    """Score, rank, and keep ranking and report in the archive.

    The secret determines which episodes are hidden; `look` adds the lab's expectations and example episodes.
    """
    asks = find_asked(find_ranking_metric(options.metric))
    if asks != "q" and has_greedy:
        raise ScoreError(f"baselines ask for Q, {options.metric} for actions: leave the baselines out")
    ask = partial(score_candidates, has_greedy=has_greedy) if asks == "q" else partial(score_by_judge, asks=asks)
    scored = ask(
        source,
        candidates,
        q_cache,
        engine,
        trained_on=trained_on,
        is_cancelled=is_cancelled,
        report=report_scoring,
    )
    if not scored.candidates:
        first = scored.failed_candidates[0]
        name = next(candidate.name for candidate in candidates if candidate.id == first.id)
        raise ScoreError(f"none of {len(candidates)} candidates can be scored; {name}: {first.reason}")
    names = {candidate.id: candidate.name for candidate in candidates}
    left_out = [LeftOutCandidate("", failure.id, failure.reason) for failure in unreadable]
    left_out += [
        LeftOutCandidate(failure.id, names[failure.id], failure.reason) for failure in scored.failed_candidates
    ]
    ranking = _rank(scored, options, scope, left_out, hidden_secret, report_ranking)
    made_at = now().astimezone(datetime.UTC).isoformat(timespec="seconds")
    found = look(scored, ranking) if look is not None else (None, ())
    report = build_report(
        scored,
        ranking,
        known=known or {},
        made_at=made_at,
        version=_version(),
        scorer_version=q_cache.scorer_version,
        seed=options.seed,
        unreadable=unreadable,
        outlook=found[0],
        glimpses=found[1],
    )
    folder = archive.keep(ranking, report=report.to_json(), page=render_page(report), made_at=made_at)
    return ScoringRun(scored, ranking, report, folder)


def read_known_success(path: Path, candidates: Sequence[Candidate]) -> dict[str, KnownSuccess]:
    """True success from a CSV file with columns candidate (name or id), success (0 to 1) and, if known, episodes."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ScoreError(f"{path}: {error}") from error
    by_ref = {candidate.name: candidate.id for candidate in candidates} | {c.id: c.id for c in candidates}
    known = {}
    for line, row in enumerate(rows, start=2):
        try:
            ref, share, episodes = row["candidate"], float(row["success"]), int(row.get("episodes") or 0)
        except (KeyError, TypeError, ValueError) as error:
            raise ScoreError(
                f"{path}, line {line}: expected columns candidate, success (0 to 1) and, if known, episodes"
            ) from error
        if not 0 <= share <= 1:
            raise ScoreError(f"{path}, line {line}: success is {share:g}, expected 0 to 1")
        if ref in by_ref:
            known[by_ref[ref]] = KnownSuccess(share, episodes)
    if not known:
        raise ScoreError(f"{path}: names none of the {len(candidates)} candidates, expected their names or ids")
    return known


def _version() -> str:
    try:
        return importlib.metadata.version("opc-ros")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _rank(
    scored: ScoredSet,
    options: RankingOptions,
    scope: Scope,
    left_out: Sequence[LeftOutCandidate],
    hidden_secret: bytes,
    report: Report,
) -> Ranking:
    return rank_candidates(
        RowsById((candidate.id for candidate in scored.candidates), scored.q),
        {candidate.id: candidate.name for candidate in scored.candidates},
        scored.lengths,
        scored.success,
        metric=options.metric,
        prior=options.prior,
        top_k=options.top_k,
        confidence=options.confidence,
        resamples=options.resamples,
        seed=options.seed,
        snapshot_id=scored.snapshot_id,
        own={} if scored.own is None else {c.id: row for c, row in zip(scored.candidates, scored.own, strict=True)},
        scope=scope,
        left_out=left_out,
        families={candidate.id: _family(candidate) for candidate in scored.candidates},
        hidden=find_hidden(hidden_secret, [fact.id for fact in scored.facts]),
        probes=choose_probes(
            [fact.file_sha256 for fact in scored.facts],
            [fact.started_ns for fact in scored.facts],
            [fact.steps for fact in scored.facts],
        ),
        searches={}
        if scored.asks != "q"
        else {each.id: look for each, look in zip(scored.candidates, scored.searches, strict=True)},
        report=report,
    )


def _family(candidate: Candidate) -> str:
    provenance = candidate.manifest.provenance
    return provenance.family or provenance.training_run
