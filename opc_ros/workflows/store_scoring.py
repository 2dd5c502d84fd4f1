"""One scoring run over a validation store and a registry, as used by `opc score` and the scorer node."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.deployment.gatekeeper import learn_snapshot
from opc_ros.deployment.signed_ranking import SCORER, ranking_signer
from opc_ros.deployment.signing import load_machine_key
from opc_ros.errors import RankingError, StoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.ranking import Ranking
from opc_ros.reporting.outlook import Glimpse, Outlook
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.order_check import Arithmetic, refuse_other_order
from opc_ros.scoring.q_cache import COARSE_VERSION, SCORER_VERSION, QCache
from opc_ros.scoring.scorer import ScoredSet
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import Store, open_store
from opc_ros.store.snapshot_groups import SnapshotEntry
from opc_ros.workflows.lab_outlook import link_from, look_ahead, read_lab_results, take_glimpses
from opc_ros.workflows.ranking_archive import PUBLISHED, RankingArchive
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun, read_known_success, score_and_rank
from opc_ros.workflows.signed_labels import find_unsigned_labels


@dataclass(frozen=True, slots=True)
class StoreScoring:
    """What to score, on what, and where to keep the results."""

    store: Path
    registry: Path
    scores: Path  # folder of all rankings
    candidates: tuple[str, ...] = ()  # names, folders or ids; empty: all
    snapshot: str = ""  # digest or tag; empty: take one now
    q_cache: Path | None = None  # None: q.sqlite among the rankings
    keys: Path | None = None  # folder with the scorer's own key, which seals Q values and signs what is published
    is_published: bool = False  # let the gate read it, if it ranks the whole registry like the published one
    has_baselines: bool = False
    known_success: Path | None = None
    deployment: Path | None = None  # folder with what has run, which lets the report show expectations
    gate: Path | None = None  # rules for the verdicts in the report
    options: RankingOptions = field(default_factory=RankingOptions)


def score_store(
    request: StoreScoring,
    engine: Engine,
    *,
    exact: Engine | None = None,
    now: Callable[[], datetime.datetime],
    is_cancelled: Callable[[], bool] = lambda: False,
    report_scoring: Report = ignore_progress,
    report_ranking: Report = ignore_progress,
) -> ScoringRun:
    """Score and rank; a registered candidate that cannot be read is reported and left out.

    A ranking of selected candidates, or by another metric or prior than the gate reads now, is kept but never
    published. With an `exact` engine given, `engine` may be less exact: it is refused if that changes the order on a
    part of the set, and its ranking is never published, because arms compute in float32.
    """
    archive = RankingArchive(request.scores)
    found, unreadable = CandidateRegistry(request.registry).find_each(request.candidates)
    known = read_known_success(request.known_success, found) if request.known_success else {}
    with (
        open_store(request.store) as store,
        QCache(
            request.q_cache or archive.q_cache,
            scorer_version=SCORER_VERSION if exact is None else COARSE_VERSION,
            seal_key=q_seal_key(request.keys),
        ) as q_cache,
    ):
        snapshot = store.snapshot(request.snapshot) if request.snapshot else store.take_snapshot()
        unsigned = find_unsigned_labels(store, snapshot.entries, request.keys) if request.keys else []
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        trained_on = _find_training_episodes(store, found)
        if exact is not None:
            with QCache(q_cache.path, seal_key=q_seal_key(request.keys)) as exact_cache:
                refuse_other_order(
                    source,
                    found,
                    Arithmetic(exact, exact_cache),
                    Arithmetic(engine, q_cache),
                    metric=request.options.metric,
                    prior=request.options.prior,
                    trained_on=trained_on,
                )

        def look(scored: ScoredSet, ranking: Ranking) -> tuple[Outlook | None, Sequence[Glimpse]]:
            return _look(request, store, source, archive, now, scored, ranking)

        run = score_and_rank(
            source,
            found,
            q_cache,
            engine,
            request.options,
            archive,
            scope="selection" if request.candidates or exact is not None else "registry",
            has_greedy=request.has_baselines,
            known=known,
            trained_on=trained_on,
            hidden_secret=_derive(request.keys, b"opc_ros hidden part\n"),
            look=look,
            unreadable=[Failure(str(folder), str(error)) for folder, error in unreadable],
            now=now,
            is_cancelled=is_cancelled,
            report_scoring=report_scoring,
            report_ranking=report_ranking,
        )
    if not request.is_published:
        return run
    if exact is not None:
        return dataclasses.replace(run, why_not_published="it was not computed in float32, which arms use")
    if unsigned:
        why_not = (
            f"{len(unsigned)} labels of its snapshot were not signed by a labeller, as that of episode {unsigned[0]}: "
            "say with `opc store label` whether it succeeded, or `opc store exclude` it"
        )
        return dataclasses.replace(run, why_not_published=why_not)
    return publish_run(run, archive, now, ranking_signer(request.keys, time.time_ns))


def _look(
    request: StoreScoring,
    store: Store,
    source: SnapshotSource[SnapshotEntry],
    archive: RankingArchive,
    now: Callable[[], datetime.datetime],
    scored: ScoredSet,
    ranking: Ranking,
) -> tuple[Outlook | None, Sequence[Glimpse]]:
    """What the lab expects of every candidate, if it is known what has run, and a few episodes to look at."""
    link = link_from(archive.folder_of(ranking.ranking_id), store.file_of)
    glimpses = take_glimpses(scored, ranking, lambda index: source.read(scored.refs[index]), link)
    if request.deployment is None:
        return None, glimpses
    outlook = look_ahead(
        ranking,
        read_lab_results(request.deployment),
        archive,
        gate=request.gate,
        facts=lambda: learn_snapshot(store, source.snapshot_id),
        now_ns=round(now().timestamp() * 1e9),
    )
    return outlook, glimpses


def _find_training_episodes(store: Store, candidates: Sequence[Candidate]) -> dict[str, frozenset[str]]:
    """By candidate id, the episodes it was trained on, if its provenance names a snapshot of this store."""
    snapshots: dict[str, frozenset[str]] = {}
    for ref in {candidate.manifest.provenance.data_snapshot for candidate in candidates} - {""}:
        try:
            snapshots[ref] = frozenset(entry.episode_id for entry in store.snapshot(ref).entries)
        except StoreError:  # trained elsewhere
            continue
    found = {candidate.id: snapshots.get(candidate.manifest.provenance.data_snapshot) for candidate in candidates}
    return {candidate_id: episodes for candidate_id, episodes in found.items() if episodes}


def q_seal_key(keys: Path | None) -> bytes:
    """The secret that seals rows of a scorer's Q cache: only the owner of its key can write values it trusts."""
    return _derive(keys, b"opc_ros q cache\n")


def _derive(keys: Path | None, purpose: bytes) -> bytes:
    """A secret of the scorer for one purpose; empty if it has no key."""
    signer = load_machine_key(keys, SCORER) if keys is not None else None
    return hashlib.sha256(purpose + signer.private_key.private_bytes_raw()).digest() if signer is not None else b""


def publish_run(
    run: ScoringRun,
    archive: RankingArchive,
    now: Callable[[], datetime.datetime],
    sign: Callable[[Ranking], str] | None = None,
) -> ScoringRun:
    """Let the gate read this ranking unless it is only an exploration."""
    why_not = _find_exploration(run.ranking, archive)
    if not why_not:
        archive.publish(
            run.ranking.ranking_id, now=now().astimezone(datetime.UTC).isoformat(timespec="seconds"), sign=sign
        )
    return dataclasses.replace(run, is_published=not why_not, why_not_published=why_not)


def _find_exploration(ranking: Ranking, archive: RankingArchive) -> str:
    """Why this ranking cannot be meant for the gate; empty if it can."""
    if ranking.scope != "registry":
        return "it ranks only the candidates asked for"
    try:
        before = archive.read(PUBLISHED)
    except RankingError:  # none yet, or an unreadable one
        return ""
    for name in ("metric", "prior"):
        if getattr(before, name) != getattr(ranking, name):
            return (
                f"its {name} is {getattr(ranking, name)}, that of the published one {getattr(before, name)}; "
                f"`opc ranking publish {ranking.ranking_id[:12]}` lets the gate read it all the same"
            )
    return ""
