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

from opc_ros.deployment.audit_log import read_tail
from opc_ros.episode import Episode
from opc_ros.errors import OpcError, StoreError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import forecast_ranking
from opc_ros.scoring.q_cache import QCache
from opc_ros.store import CommittedEpisode, open_store

AUDIT_LINES = 20_000  # how far back a search looks
EPISODES_READ = 4  # whole episodes kept in memory, for whoever steps through one
NEAR = 0.1  # of the best: how far below it still counts as near
FRESH_S = 2.0  # lists of episodes are at most this old


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


@dataclass(frozen=True, slots=True)
class EpisodeQuery:
    """Which episodes to list; an empty field asks for nothing."""

    robot: str = ""
    policy: str = ""
    object_set: str = ""
    label: str = ""  # success, failure, none
    health: str = ""  # ok, noted
    text: str = ""  # part of an id
    since_ns: int = 0

    def matches(self, episode: CommittedEpisode) -> bool:
        return (
            (not self.robot or episode.robot == self.robot)
            and (not self.policy or episode.behaviour_policy == self.policy)
            and (not self.object_set or episode.object_set == self.object_set)
            and (not self.label or label_word(episode) == self.label)
            and (not self.health or (self.health == "noted") == bool(episode.health))
            and self.text in episode.id
            and episode.began_ns >= self.since_ns
        )


def label_word(episode: CommittedEpisode) -> str:
    if episode.label.is_success is None:
        return "none"
    return "success" if episode.label.is_success else "failure"


class ConsoleLab:
    """Reads only; each call opens what it needs, so whoever writes is never in the way."""

    def __init__(self, paths: LabPaths, now_s: Callable[[], float] = time.monotonic) -> None:
        self.paths = paths
        self._now_s = now_s
        self._lock = threading.Lock()
        self._listed: tuple[float, list[CommittedEpisode]] | None = None
        self._predicted: tuple[object, dict[str, dict[str, float]]] | None = None
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

    def episodes(self, query: EpisodeQuery) -> list[CommittedEpisode]:
        """Newest first."""
        return [episode for episode in self._all_episodes() if query.matches(episode)]

    def facets(self) -> dict[str, list[str]]:
        """What one can filter by."""
        episodes = self._all_episodes()
        return {
            "robots": sorted({episode.robot for episode in episodes}),
            "policies": sorted({episode.behaviour_policy for episode in episodes}),
            "object_sets": sorted({episode.object_set for episode in episodes}),
        }

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
        path = self.paths.deployment / "ledger.jsonl"
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

    def _all_episodes(self) -> list[CommittedEpisode]:
        with self._lock:
            listed = self._listed
        if listed is not None and self._now_s() - listed[0] < FRESH_S:
            return listed[1]
        try:
            with open_store(self.paths.store) as store:
                episodes = sorted(store.episodes(on_damage=lambda _: None), key=lambda e: e.began_ns, reverse=True)
        except StoreError:
            episodes = []  # no store yet: the recorder makes it with its first episode
        with self._lock:
            self._listed = (self._now_s(), episodes)
        return episodes
