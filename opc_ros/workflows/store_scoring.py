"""One scoring run over a validation store and a registry of candidates: what `opc score` and the scorer node do."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.policies.registry import CandidateRegistry
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.evaluation import Failure
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import open_store
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun, read_known_success, score_and_rank


@dataclass(frozen=True, slots=True)
class StoreScoring:
    """What to score, on what, and where to put what comes of it."""

    store: Path
    registry: Path
    out: Path
    candidates: tuple[str, ...] = ()  # names, folders or ids; none: all
    snapshot: str = ""  # digest or tag; empty: take one now
    q_cache: Path | None = None  # None: q.sqlite beside `out`
    has_baselines: bool = False
    known_success: Path | None = None
    options: RankingOptions = field(default_factory=RankingOptions)


def score_store(
    request: StoreScoring,
    engine: Engine,
    *,
    episodes_per_pass: int = 1,
    now: Callable[[], datetime.datetime],
    is_cancelled: Callable[[], bool] = lambda: False,
    report_scoring: Report = ignore_progress,
    report_ranking: Report = ignore_progress,
) -> ScoringRun:
    """Score and rank; a registered candidate that cannot be read is reported and left out."""
    found, unreadable = CandidateRegistry(request.registry).find_each(request.candidates)
    known = read_known_success(request.known_success, found) if request.known_success else {}
    with open_store(request.store) as store, QCache(request.q_cache or request.out.parent / "q.sqlite") as q_cache:
        snapshot = store.snapshot(request.snapshot) if request.snapshot else store.take_snapshot()
        return score_and_rank(
            SnapshotSource(snapshot.id, snapshot.entries, store.read_entry),
            found,
            q_cache,
            engine,
            request.options,
            request.out,
            has_greedy=request.has_baselines,
            episodes_per_pass=episodes_per_pass,
            known=known,
            unreadable=[Failure(str(folder), str(error)) for folder, error in unreadable],
            now=now,
            is_cancelled=is_cancelled,
            report_scoring=report_scoring,
            report_ranking=report_ranking,
        )
