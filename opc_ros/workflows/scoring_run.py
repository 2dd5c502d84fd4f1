"""One scoring run from candidates and episodes to a ranking and its report on disk."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.durable import replace_file
from opc_ros.errors import OpcError, ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.rank import rank_candidates
from opc_ros.ranking.ranking import Ranking
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import KnownSuccess, ScoringReport, build_report
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.evaluation import Failure
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import EpisodeSource


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How to order candidates once their Q values are known."""

    metric: str = "soft_opc"
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
    page: Path
    document: Path
    ranking_file: Path

    @property
    def is_complete(self) -> bool:
        """False where a candidate or an episode had to be left out."""
        return not self.report.failed_candidates and not self.report.failed_episodes


def score_and_rank(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    q_cache: QCache,
    engine: Engine,
    options: RankingOptions,
    out: Path,
    *,
    has_greedy: bool = False,
    episodes_per_pass: int = 1,
    known: Mapping[str, KnownSuccess] | None = None,
    unreadable: Sequence[Failure] = (),
    now: Callable[[], datetime.datetime],
    is_cancelled: Callable[[], bool] = lambda: False,
    report_scoring: Report = ignore_progress,
    report_ranking: Report = ignore_progress,
) -> ScoringRun:
    """Score, rank and write `ranking.json`, `report.json` and `report.html` below `out`."""
    scored = score_candidates(
        source,
        candidates,
        q_cache,
        engine,
        has_greedy=has_greedy,
        episodes_per_pass=episodes_per_pass,
        is_cancelled=is_cancelled,
        report=report_scoring,
    )
    if not scored.candidates:
        first = scored.failed_candidates[0]
        raise ScoreError(f"none of {len(candidates)} candidates can be scored; {first.id[:12]}: {first.reason}")
    ranking = _rank(scored, options, report_ranking)
    report = build_report(
        scored,
        ranking,
        known=known or {},
        made_at=now().astimezone(datetime.UTC).isoformat(timespec="seconds"),
        version=_version(),
        seed=options.seed,
        unreadable=unreadable,
    )
    return _write(scored, ranking, report, out)


def read_known_success(path: Path, candidates: Sequence[Candidate]) -> dict[str, KnownSuccess]:
    """True success from a CSV file: columns candidate (name or id), success (0 to 1) and, if known, episodes."""
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


def _rank(scored: ScoredSet, options: RankingOptions, report: Report) -> Ranking:
    return rank_candidates(
        {candidate.id: row for candidate, row in zip(scored.candidates, scored.q, strict=True)},
        {candidate.id: candidate.name for candidate in scored.candidates},
        scored.lengths,
        scored.success,
        metric=options.metric,
        prior=options.prior,
        top_k=options.top_k,
        confidence=options.confidence,
        resamples=options.resamples,
        rng=np.random.default_rng(options.seed),
        snapshot_id=scored.snapshot_id,
        report=report,
    )


def _write(scored: ScoredSet, ranking: Ranking, report: ScoringReport, out: Path) -> ScoringRun:
    files = {
        out / "ranking.json": ranking.to_json() + "\n",
        out / "report.json": report.to_json() + "\n",
        out / "report.html": render_page(report),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            replace_file(path, text.encode())
    except OSError as error:
        raise OpcError(f"report in {out}: {error.strerror or error}") from error
    ranking_file, document, page = files
    return ScoringRun(scored, ranking, report, page=page, document=document, ranking_file=ranking_file)
