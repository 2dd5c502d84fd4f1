"""What the console reads from disk: episodes, rankings, Q values, the audit log and reports."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.deployment.audit_log import find_audit_log, read_tail
from opc_ros.deployment.queue_reader import look_into_queue
from opc_ros.episode import Episode
from opc_ros.errors import OpcError, StoreError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import RankAgreement, forecast_ranking
from opc_ros.scoring.q_cache import QCache
from opc_ros.store import CommittedEpisode, Selection, open_store
from opc_ros.workflows.candidate_tags import CandidateTags
from opc_ros.workflows.label_history import find_disputes, read_label_history
from opc_ros.workflows.ranking_archive import RankingArchive

AUDIT_LINES = 20_000  # how far back a search looks
EPISODES_READ = 4  # whole episodes cached for stepping through frames
NEAR = 0.1  # how far below the best still counts as near
RANKINGS_SHOWN = 12
AGREEMENTS_SHOWN = 8
_REAL = "SELECT candidate_id, success, at_ns FROM counted WHERE success IS NOT NULL AND rung IN ('reduced', 'full')"
DISPUTES_S = 5.0


@dataclass(frozen=True, slots=True)
class LabPaths:
    """Where a lab keeps its files."""

    store: Path
    scores: Path  # folder of the published ranking, which the gate reads
    deployment: Path
    candidates: Path

    @property
    def q_cache(self) -> Path:
        return self.scores.parent / "q.sqlite"


def label_word(episode: CommittedEpisode) -> str:
    return {"unlabelled": "none"}.get(episode.label.outcome, episode.label.outcome)


def find_disagreements(values: Sequence[Mapping[str, float]], most: int) -> list[dict[str, Any]]:
    """Episodes scored by every candidate, largest disagreement first.

    `values` has each candidate's mean Q by episode id. Scales differ between candidates, so each candidate's values are
    divided by their standard deviation.
    """
    shared = sorted(set.intersection(*(set(each) for each in values))) if values else []
    if len(shared) < 2:
        return []
    q = np.array([[each[episode_id] for episode_id in shared] for each in values])
    spread = q.std(axis=1, keepdims=True)
    z = (q - q.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    apart = np.ptp(z, axis=0)
    return [
        {"episode_id": shared[index], "apart": round(float(apart[index]), 2), "q": np.round(q[:, index], 3).tolist()}
        for index in np.argsort(-apart, kind="stable")[:most]
    ]


class ConsoleLab:
    """Read-only; each call opens what it needs and never blocks a writer."""

    def __init__(self, paths: LabPaths, now_s: Callable[[], float] = time.monotonic) -> None:
        self.paths = paths
        self._now_s = now_s
        self._lock = threading.Lock()
        self._predicted: tuple[object, dict[str, dict[str, float]]] | None = None
        self._report: tuple[object, dict[str, Any]] | None = None
        self._ranks_read: dict[str, dict[str, int]] = {}
        self._whole: OrderedDict[str, Episode] = OrderedDict()
        self._agreements: OrderedDict[object, RankAgreement] = OrderedDict()
        self._disputes: tuple[float, list[dict[str, Any]]] | None = None

    def report(self) -> dict[str, Any] | None:
        """The newest scoring report, as JSON, read once until another replaces it; None if there is none yet."""
        path = self.paths.scores / "report.json"
        try:
            found = path.stat()
            key = (found.st_ino, found.st_mtime_ns, found.st_size)
            with self._lock:
                if self._report is not None and self._report[0] == key:
                    return self._report[1]
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise OpcError(f"{path}: cannot be read: {error}") from error
        with self._lock:
            self._report = (key, document)
        return document

    def tags(self) -> tuple[Mapping[str, tuple[str, ...]], str]:
        """Tags by candidate id, and what is wrong with their file, which must not stop the ranking from being shown."""
        try:
            return CandidateTags(self.paths.candidates).read(), ""
        except OpcError as error:
            return {}, str(error)

    def predicted(self, real: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, float]]:
        """Predicted success of every candidate in the published ranking, by id; `real` has successes and trials."""
        try:
            text = (self.paths.scores / "ranking.json").read_text(encoding="utf-8")
        except OSError:
            return {}
        key = (text, tuple(sorted(real.items())))
        with self._lock:
            if self._predicted is not None and self._predicted[0] == key:
                return self._predicted[1]
        forecast = forecast_ranking(Ranking.from_json(text), real)
        near = forecast.predicted.within(NEAR)
        found = {
            candidate_id: {**asdict(forecast.expected(candidate_id)), "near_best": float(near[index])}
            for index, candidate_id in enumerate(forecast.ids)
        }
        with self._lock:
            self._predicted = (key, found)
        return found

    def episodes(self, selection: Selection, *, first: int, count: int) -> tuple[int, list[CommittedEpisode]]:
        """The number of selected episodes, and one page of them, newest first."""
        try:
            with open_store(self.paths.store) as store:
                return store.statistics(selection).total.episodes, store.page(selection, first=first, count=count)
        except StoreError:
            return 0, []  # no store yet: the recorder creates it with its first episode

    def facets(self) -> dict[str, list[str]]:
        """The values that episodes can be filtered by."""
        try:
            with open_store(self.paths.store) as store:
                found = store.statistics()
        except StoreError:
            return {"robots": [], "policies": [], "object_sets": []}
        return {
            "robots": list(found.by_robot),
            "policies": list(found.by_policy),
            "object_sets": list(found.by_object_set),
        }

    def rankings(self, most: int = RANKINGS_SHOWN) -> list[dict[str, Any]]:
        """The newest rankings of the whole registry by the current metric, oldest first, with each candidate's rank."""
        archive = RankingArchive(self.paths.scores.parent)
        try:
            metric = Ranking.from_json((self.paths.scores / "ranking.json").read_text(encoding="utf-8")).metric
            kept = [entry for entry in archive.summaries() if entry.metric == metric and entry.scope == "registry"]
        except (OSError, OpcError):
            return []
        return [
            {
                "ranking_id": entry.ranking_id,
                "made_at": entry.made_at,
                "episodes": entry.episodes,
                "ranks": self._ranks(archive, entry.ranking_id),
            }
            for entry in sorted(kept, key=lambda entry: entry.made_at)[-most:]
        ]

    def agreement_over_time(self, most: int = AGREEMENTS_SHOWN) -> list[dict[str, Any]]:
        """How well each stored ranking of the whole registry agrees with the real results available at the time.

        This is the rank correlation over the whole field, as the gate computes it, with its interval. Rankings older
        than the first real result are left out.
        """
        archive = RankingArchive(self.paths.scores.parent)
        try:
            kept = [entry for entry in archive.summaries() if entry.scope == "registry"]
            with look_into_queue(self.paths.deployment) as queue:
                rows = queue.rows(_REAL)
        except OpcError:
            return []
        found = []
        for entry in sorted(kept, key=lambda each: each.made_at)[-most:]:
            made_ns = datetime.fromisoformat(entry.made_at).timestamp() * 1e9
            real: dict[str, tuple[int, int]] = {}
            for candidate_id, success, at_ns in rows:
                if at_ns <= made_ns:
                    successes, trials = real.get(candidate_id, (0, 0))
                    real[candidate_id] = (successes + success, trials + 1)
            if real:
                agreement = self._agree(archive, entry.ranking_id, real)
                found.append({"made_at": entry.made_at, "tried": len(real), **asdict(agreement)})
        return found

    def _agree(self, archive: RankingArchive, ranking_id: str, real: Mapping[str, tuple[int, int]]) -> RankAgreement:
        key = (ranking_id, tuple(sorted(real.items())))
        with self._lock:
            if key in self._agreements:
                return self._agreements[key]
        agreement = forecast_ranking(archive.read(ranking_id), real).agreement()
        with self._lock:
            self._agreements[key] = agreement
            while len(self._agreements) > 4 * AGREEMENTS_SHOWN:
                self._agreements.popitem(last=False)
        return agreement

    def _ranks(self, archive: RankingArchive, ranking_id: str) -> dict[str, int]:
        """Read only once, because a ranking never changes."""
        if ranking_id not in self._ranks_read:
            found = {scored.name: scored.rank for scored in archive.read(ranking_id).candidates}
            with self._lock:
                self._ranks_read[ranking_id] = found
        return self._ranks_read[ranking_id]

    def find(self, episode_id: str) -> CommittedEpisode:
        with open_store(self.paths.store) as store:
            return store.find(episode_id)

    def read(self, episode_id: str) -> Episode:
        with self._lock:
            if episode_id in self._whole:
                self._whole.move_to_end(episode_id)
                return self._whole[episode_id]
        with open_store(self.paths.store) as store:
            episode = store.read(episode_id)
        with self._lock:
            self._whole[episode_id] = episode
            while len(self._whole) > EPISODES_READ:
                self._whole.popitem(last=False)
        return episode

    def q_along(self, committed: CommittedEpisode) -> dict[str, list[float]]:
        """Each scored candidate's Q at the recorded action of every step, by candidate id."""
        if not self.paths.q_cache.is_file():
            return {}
        with QCache(self.paths.q_cache) as cache:
            found = cache.read_episode((committed.id, committed.file_sha256))
        return {candidate_id: [round(float(q), 5) for q in values] for candidate_id, values in found.items()}

    def disagreements(self, ids: list[str], most: int = 8) -> list[dict[str, Any]]:
        """Episodes on which some candidates differ most, by how far each one's mean Q lies from its own average."""
        if not self.paths.q_cache.is_file():
            return []
        with QCache(self.paths.q_cache) as cache:
            values = [cache.mean_values(candidate_id) for candidate_id in ids]
        return find_disagreements(values, most)

    def label_history(self, episode_id: str) -> list[dict[str, Any]]:
        with open_store(self.paths.store) as store:
            found = read_label_history(store, episode_id)
        return [
            {
                "revision": each.revision,
                "label": each.label.outcome,
                "labeller": each.label.labeller,
                "at_ns": str(each.labelled_ns),
                "note": each.note,
                "is_signed": bool(each.signature),
            }
            for each in found
        ]

    def disputes(self) -> list[dict[str, Any]]:
        """Episodes on which labellers disagree; looked up at most every few seconds."""
        with self._lock:
            if self._disputes is not None and self._now_s() - self._disputes[0] < DISPUTES_S:
                return self._disputes[1]
        try:
            with open_store(self.paths.store) as store:
                found = [asdict(each) for each in find_disputes(store)]
        except StoreError:
            found = []
        with self._lock:
            self._disputes = (self._now_s(), found)
        return found

    def file_of(self, episode_id: str) -> Path:
        with open_store(self.paths.store) as store:
            return store.file_of(episode_id)

    def quarantined(self) -> list[dict[str, Any]]:
        try:
            with open_store(self.paths.store) as store:
                found, _ = store.quarantined()
        except StoreError:
            return []
        return [json.loads(json.dumps(asdict(entry), default=str)) for entry in found]

    def audit(self, text: str = "", kind: str = "", most: int = 200) -> list[dict[str, Any]]:
        """Matching entries, newest first; the search covers the last few thousand lines."""
        path = find_audit_log(self.paths.deployment)
        if not path.is_file() or not path.stat().st_size:
            return []
        found = []
        for entry in reversed(read_tail(path, AUDIT_LINES)):
            line = json.dumps(entry.body, ensure_ascii=False)
            if (not kind or entry.kind == kind) and text.lower() in f"{entry.kind} {line}".lower():
                found.append(asdict(entry))
                if len(found) == most:
                    break
        return found

    def reports(self) -> list[dict[str, str]]:
        """Every stored report below the scores' folder, newest first."""
        root = self.paths.scores.parent
        pages = sorted(root.glob("*/report.html"), key=lambda page: page.stat().st_mtime, reverse=True)
        return [
            {"name": page.parent.name, "made": time.strftime("%Y-%m-%d %H:%M", time.localtime(page.stat().st_mtime))}
            for page in pages
        ]

    def report_page(self, name: str) -> Path:
        for known in self.reports():
            if known["name"] == name:
                return self.paths.scores.parent / name / "report.html"
        raise OpcError(f"no report is named {name!r}")
