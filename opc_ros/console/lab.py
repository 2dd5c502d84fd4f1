"""What the console reads from disk: episodes, rankings, Q values, the audit log and reports."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opc_ros.deployment.audit_log import find_audit_log, read_tail
from opc_ros.episode import Episode
from opc_ros.errors import OpcError, StoreError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import forecast_ranking
from opc_ros.scoring.q_cache import QCache
from opc_ros.store import CommittedEpisode, Selection, open_store
from opc_ros.workflows.ranking_archive import RankingArchive

AUDIT_LINES = 20_000  # how far back a search looks
EPISODES_READ = 4  # whole episodes kept in memory, for whoever steps through one
NEAR = 0.1  # of the best: how far below it still counts as near
RANKINGS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class LabPaths:
    """Where a lab keeps its things."""

    store: Path
    scores: Path  # folder of the ranking that the gate reads
    deployment: Path
    candidates: Path

    @property
    def q_cache(self) -> Path:
        return self.scores.parent / "q.sqlite"


def label_word(episode: CommittedEpisode) -> str:
    return {"unlabelled": "none"}.get(episode.label.outcome, episode.label.outcome)


class ConsoleLab:
    """Reads only; each call opens what it needs, so whoever writes is never in the way."""

    def __init__(self, paths: LabPaths, now_s: Callable[[], float] = time.monotonic) -> None:
        self.paths = paths
        self._now_s = now_s
        self._lock = threading.Lock()
        self._predicted: tuple[object, dict[str, dict[str, float]]] | None = None
        self._ranks_read: dict[str, dict[str, int]] = {}
        self._whole: OrderedDict[str, Episode] = OrderedDict()

    def report(self) -> dict[str, Any] | None:
        """The newest scoring report, as JSON; None before the first."""
        try:
            document: dict[str, Any] = json.loads((self.paths.scores / "report.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise OpcError(f"{self.paths.scores / 'report.json'}: cannot be read: {error}") from error
        return document

    def predicted(self, real: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, float]]:
        """Predicted success of everyone the gate reads about, by id; `real` has successes and trials."""
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
        """How many are selected, and some of them, newest first."""
        try:
            with open_store(self.paths.store) as store:
                return store.statistics(selection).total.episodes, store.page(selection, first=first, count=count)
        except StoreError:
            return 0, []  # no store yet: the recorder makes it with its first episode

    def facets(self) -> dict[str, list[str]]:
        """What one can filter by."""
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
        """The newest rankings of the whole registry by the metric that counts now, oldest first: who stood where."""
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

    def _ranks(self, archive: RankingArchive, ranking_id: str) -> dict[str, int]:
        """A ranking never changes, so it is read once."""
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

    def quarantined(self) -> list[dict[str, Any]]:
        try:
            with open_store(self.paths.store) as store:
                found, _ = store.quarantined()
        except StoreError:
            return []
        return [json.loads(json.dumps(asdict(entry), default=str)) for entry in found]

    def audit(self, text: str = "", kind: str = "", most: int = 200) -> list[dict[str, Any]]:
        """Newest entries first that hold a text; the search goes back some thousand lines."""
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
        raise OpcError(f"no report is called {name!r}")
