"""Q values, computed once for each candidate and episode and kept.

One SQLite file in write-ahead mode: a killed process loses at most the batch it was writing, several processes may read
and write at once, a lookup costs no more than what it finds, and SQLite comes with every Python.
"""

from __future__ import annotations

import hmac
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.errors import QCacheError
from opc_ros.scoring.source import EpisodeRef

SCORER_VERSION = "4"  # change it with anything that changes Q values: decoding, resizing, a candidate's inputs
COARSE_VERSION = f"{SCORER_VERSION}+bfloat16"  # must never enter a float32 score
FORMAT_VERSION = 1
LOGGED = "q"  # Q at the recorded action
GREEDY = "greedy_q:seed_and_step"  # Q at the policy's own action, found by its manifest's search
ACTED = "acted:seed_and_step"  # that action itself: for each step as many numbers as the task's actions have

_TABLES = """
CREATE TABLE IF NOT EXISTS candidates (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS episodes (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL, file_sha256 TEXT NOT NULL, steps INTEGER NOT NULL, robot TEXT NOT NULL,
    behaviour_policy TEXT NOT NULL, object_set TEXT NOT NULL, started_ns INTEGER NOT NULL, UNIQUE (id, file_sha256));
CREATE TABLE IF NOT EXISTS q_values (
    candidate INTEGER NOT NULL, quantity TEXT NOT NULL, scorer_version TEXT NOT NULL, episode INTEGER NOT NULL,
    data BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (candidate, quantity, scorer_version, episode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS joined (
    candidate TEXT NOT NULL, quantity TEXT NOT NULL, scorer_version TEXT NOT NULL, episodes TEXT NOT NULL,
    data BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (candidate, quantity, scorer_version));
"""

_FACTS = "id, file_sha256, steps, robot, behaviour_policy, object_set, started_ns"

_JOINED = "/joined"  # in place of an episode's id

EpisodeKey = tuple[str, str]  # episode id, sha256 of its file


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What a report needs to know about an episode without reading it again."""

    id: str
    file_sha256: str
    steps: int
    robot: str
    behaviour_policy: str
    object_set: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class KnownEpisodes:
    """A set's episodes as a Q cache knows them."""

    refs: Sequence[EpisodeRef]
    facts: Sequence[EpisodeFacts | None]  # one for each ref; None where nobody was scored on it yet
    numbers: array[int]  # of those with facts, as the file counts its episodes, ascending
    places: array[int]  # where each of these numbers stands among the refs

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each, (E,); 0 where they are not known."""
        return np.array([0 if facts is None else facts.steps for facts in self.facts], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class QCacheEntry:
    """The Q values of one candidate on one episode."""

    candidate_id: str
    episode: EpisodeKey
    values: np.ndarray  # (T,) float32; (T, A) for ACTED
    quantity: str = LOGGED


class QCache:
    """Opens or creates the Q cache file; use it in a `with` block, from one thread."""

    def __init__(self, path: Path | str, *, scorer_version: str = SCORER_VERSION, seal_key: bytes = b"") -> None:
        """With a seal key, rows that are not sealed with it count as missing."""
        self._path = Path(path)
        self._seal_key = seal_key
        self._scorer_version = scorer_version
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=60.0)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, FORMAT_VERSION):
                raise QCacheError(f"{self._path}: Q cache format {version}, this opc_ros reads {FORMAT_VERSION}")
            self._connection.executescript(f"{_TABLES} PRAGMA user_version = {FORMAT_VERSION};")
        except (sqlite3.Error, OSError) as error:
            raise self._problem(error) from error

    def __enter__(self) -> QCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def scorer_version(self) -> str:
        """The version of the Q values that are read and written here."""
        return self._scorer_version

    def close(self) -> None:
        self._connection.close()

    def append(self, entries: Iterable[QCacheEntry], facts: Iterable[EpisodeFacts] = ()) -> None:
        """Add the values of one batch, all or none; facts about known episodes stay as they are."""
        try:
            with self._connection as write:
                write.executemany(
                    f"INSERT OR IGNORE INTO episodes ({_FACTS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (f.id, f.file_sha256, f.steps, f.robot, f.behaviour_policy, f.object_set, f.started_ns)
                        for f in facts
                    ],
                )
                for entry in entries:
                    data = np.ascontiguousarray(entry.values, dtype="<f4").tobytes()
                    write.execute("INSERT OR IGNORE INTO candidates (id) VALUES (?)", (entry.candidate_id,))
                    write.execute(
                        "INSERT OR REPLACE INTO q_values SELECT c.key, ?, ?, e.key, ?, ? FROM candidates c, episodes e"
                        " WHERE c.id = ? AND e.id = ? AND e.file_sha256 = ?",
                        (
                            entry.quantity,
                            self._scorer_version,
                            data,
                            self._check(entry.candidate_id, entry.episode, entry.quantity, data),
                            entry.candidate_id,
                            *entry.episode,
                        ),
                    )
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def read(self, candidate_id: str, quantity: str = LOGGED) -> dict[EpisodeKey, np.ndarray]:
        """All values of one candidate; a row whose bytes have changed counts as missing."""
        rows = self._rows(
            "SELECT e.id, e.file_sha256, e.steps, q.data, q.crc"
            " FROM q_values q JOIN episodes e ON e.key = q.episode"
            " WHERE q.candidate = (SELECT key FROM candidates WHERE id = ?)"
            " AND q.quantity = ? AND q.scorer_version = ?",
            (candidate_id, quantity, self._scorer_version),
        )
        shape = (-1,) if quantity != ACTED else None
        return {
            (episode_id, file_sha256): np.frombuffer(data, dtype="<f4").reshape(shape or (steps, -1))
            for episode_id, file_sha256, steps, data, crc in rows
            if _fits(data, steps, quantity)
            and self._check(candidate_id, (episode_id, file_sha256), quantity, data) == crc
        }

    def read_each(self, candidate_id: str, quantity: str, known: KnownEpisodes) -> Iterator[tuple[int, bytes]]:
        """The same for a set of any size, row by row: an episode's place in the set, and its values, "<f4"."""
        rows = self._each(
            "SELECT episode, data, crc FROM q_values"
            " WHERE candidate = (SELECT key FROM candidates WHERE id = ?) AND quantity = ? AND scorer_version = ?"
            " ORDER BY episode",
            (candidate_id, quantity, self._scorer_version),
        )
        numbers, at = known.numbers, 0
        for number, data, crc in rows:
            while at < len(numbers) and numbers[at] < number:
                at += 1
            if at == len(numbers) or numbers[at] != number:
                continue
            place = known.places[at]
            facts = known.facts[place]
            assert facts is not None  # of every episode with a number
            key = (facts.id, facts.file_sha256)
            if _fits(data, facts.steps, quantity) and self._check(candidate_id, key, quantity, data) == crc:
                yield place, data

    def read_joined(self, candidate_id: str, quantity: str, episodes: str, transitions: int) -> np.ndarray | None:
        """One candidate's values on the last large set it was scored on, (N,), if it is this set."""
        rows = self._rows(
            "SELECT data, crc FROM joined WHERE candidate = ? AND quantity = ? AND scorer_version = ? AND episodes = ?",
            (candidate_id, quantity, self._scorer_version, episodes),
        )
        for data, crc in rows:
            if len(data) == 4 * transitions and self._check(candidate_id, (_JOINED, episodes), quantity, data) == crc:
                return np.frombuffer(data, dtype="<f4")
        return None

    def keep_joined(self, candidate_id: str, quantity: str, episodes: str, values: np.ndarray) -> None:
        """Keep a candidate's values on a large set in one piece; if that fails, the next score reads single rows."""
        data = np.ascontiguousarray(values, dtype="<f4").data
        crc = self._check(candidate_id, (_JOINED, episodes), quantity, data)
        try:
            with self._connection as write:
                write.execute(
                    "INSERT OR REPLACE INTO joined VALUES (?, ?, ?, ?, ?, ?)",
                    (candidate_id, quantity, self._scorer_version, episodes, data, crc),
                )
        except sqlite3.Error:
            return

    def read_episode(self, episode: EpisodeKey, quantity: str = LOGGED) -> dict[str, np.ndarray]:
        """Every candidate's values on one episode, by candidate id; only for display, so seals are not checked."""
        rows = self._rows(
            "SELECT c.id, e.steps, q.data FROM q_values q JOIN candidates c ON c.key = q.candidate"
            " JOIN episodes e ON e.key = q.episode"
            " WHERE e.id = ? AND e.file_sha256 = ? AND q.quantity = ? AND q.scorer_version = ?",
            (*episode, quantity, self._scorer_version),
        )
        return {
            candidate_id: np.frombuffer(data, dtype="<f4")
            for candidate_id, steps, data in rows
            if len(data) == 4 * steps
        }

    def mean_values(self, candidate_id: str, quantity: str = LOGGED) -> dict[str, float]:
        """One candidate's mean value on each episode, by episode id; only for display, so seals are not checked."""
        rows = self._rows(
            "SELECT e.id, e.steps, q.data FROM q_values q JOIN episodes e ON e.key = q.episode"
            " WHERE q.candidate = (SELECT key FROM candidates WHERE id = ?)"
            " AND q.quantity = ? AND q.scorer_version = ?",
            (candidate_id, quantity, self._scorer_version),
        )
        return {
            episode_id: float(np.frombuffer(data, dtype="<f4").mean())
            for episode_id, steps, data in rows
            if steps and len(data) == 4 * steps
        }

    def facts(self) -> dict[EpisodeKey, EpisodeFacts]:
        """What is known about every episode seen so far."""
        try:
            rows = self._connection.execute(f"SELECT {_FACTS} FROM episodes").fetchall()
        except sqlite3.Error as error:
            raise self._problem(error) from error
        return {(row[0], row[1]): EpisodeFacts(*row) for row in rows}

    def find_episodes(self, refs: Sequence[EpisodeRef]) -> KnownEpisodes:
        """Facts of those that were seen before, with the strings of the refs: a large set has many."""
        place_of = {ref.id: place for place, ref in enumerate(refs)}
        facts: list[EpisodeFacts | None] = [None] * len(refs)
        numbers, places = array("q"), array("q")
        texts: dict[str, str] = {}
        for number, name, file_sha256, steps, robot, policy, object_set, started_ns in self._each(
            f"SELECT key, {_FACTS} FROM episodes ORDER BY key"
        ):
            place = place_of.get(name, -1)
            if place < 0 or refs[place].file_sha256 != file_sha256:
                continue
            ref = refs[place]
            robot, policy, object_set = (texts.setdefault(text, text) for text in (robot, policy, object_set))
            facts[place] = EpisodeFacts(ref.id, ref.file_sha256, steps, robot, policy, object_set, started_ns)
            numbers.append(number)
            places.append(place)
        return KnownEpisodes(refs, facts, numbers, places)

    def _check(self, candidate_id: str, episode: EpisodeKey, quantity: str, data: bytes | memoryview) -> int:
        """A checksum against accidents or, with a key, a seal against anyone who can write the file."""
        if not self._seal_key:
            return zlib.crc32(data)
        about = "\0".join((candidate_id, *episode, quantity, self._scorer_version)).encode()
        return int.from_bytes(hmac.digest(self._seal_key, about + b"\0" + data, "sha256")[:8]) >> 1

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def _each(self, query: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows one by one, where there may be too many to hold."""
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def _problem(self, error: Exception) -> QCacheError:
        return QCacheError(f"Q cache {self._path}: {error}; move the file away and its values are computed again")


def _fits(data: bytes, steps: int, quantity: str) -> bool:
    """Whether there is one number for each step or, for actions, an equal number for each step."""
    if quantity != ACTED:
        return len(data) == 4 * steps
    return bool(data) and len(data) % (4 * steps) == 0
