"""What the Q cache already has for a set of episodes, and what has been computed since."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from opc_ros.policies.action_space import measure_reach
from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.evaluation import ChunkResult, EvaluationPlan
from opc_ros.scoring.own_search import SEARCH, is_standard
from opc_ros.scoring.q_cache import ACTED, EpisodeFacts, EpisodeKey, QCache
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.source import EpisodeRef

LARGE_SET = 2000  # with this many episodes, a candidate's values are also kept in one piece


class KnownValues:
    """Values by candidate and quantity; one array for a candidate with no gaps, instead of one per episode."""

    def __init__(
        self, q_cache: QCache, candidates: Sequence[Candidate], plan: EvaluationPlan, refs: Sequence[EpisodeRef]
    ) -> None:
        self._q_cache = q_cache
        self._quantities = plan.quantities
        self._facts = q_cache.facts()
        self._keys = [(ref.id, ref.file_sha256) for ref in refs]
        self._is_large = len(refs) >= LARGE_SET
        self._episodes = hashlib.sha256("\n".join(map(" ".join, self._keys)).encode()).hexdigest()
        self._lengths: np.ndarray | None = None  # (E,), once every episode is known
        if all(key in self._facts for key in self._keys):
            self._lengths = np.array([self._facts[key].steps for key in self._keys], dtype=np.int64)
        self._rows: dict[tuple[str, str], dict[EpisodeKey, np.ndarray]] = {}
        self._joined: dict[tuple[str, str], np.ndarray] = {}  # (N,)
        self._searched = plan.searched
        self._searches = {
            each.id: q_cache.read(each.id, SEARCH)
            for each in candidates
            if plan.searched and not is_standard(each.manifest)
        }
        for candidate in candidates:
            for quantity in plan.quantities:
                self._read(candidate.id, quantity)

    def find_present(self, candidate_id: str) -> np.ndarray:
        """Whether everything the plan asks for is present, for each episode, (E,) bool."""
        present = np.ones(len(self._keys), dtype=np.bool_)
        for quantity in self._quantities:
            rows = self._rows.get((candidate_id, quantity))
            if rows is not None:
                present &= np.fromiter((key in rows for key in self._keys), np.bool_, len(self._keys))
        if candidate_id in self._searches:
            lacking = self._searched - self._searches[candidate_id].keys()
            present &= np.fromiter((key not in lacking for key in self._keys), np.bool_, len(self._keys))
        return present

    def add(self, result: ChunkResult) -> None:
        self._facts |= {(facts.id, facts.file_sha256): facts for facts in result.facts}
        for entry in result.entries:
            if entry.quantity == SEARCH:
                self._searches[entry.candidate_id][entry.episode] = entry.values
            rows = self._rows.get((entry.candidate_id, entry.quantity))
            if rows is not None:
                rows[entry.episode] = entry.values

    def facts_of(self, refs: Sequence[EpisodeRef]) -> tuple[EpisodeFacts, ...]:
        return tuple(self._facts[ref.id, ref.file_sha256] for ref in refs)

    def join(self, candidates: Sequence[Candidate], quantity: str, facts: Sequence[EpisodeFacts]) -> np.ndarray:
        """One row for each candidate, (C, N) float32, the episodes concatenated; call it once per quantity.

        Values kept in one piece are moved into their row, so that a large set is not held twice.
        """
        keys = [(fact.id, fact.file_sha256) for fact in facts]
        joined = np.empty((len(candidates), sum(fact.steps for fact in facts)), dtype=np.float32)
        is_all = keys == self._keys
        for row, candidate in zip(joined, candidates, strict=True):
            whole = self._joined.pop((candidate.id, quantity), None)
            if whole is not None:
                row[:] = whole if is_all else self._take(whole, keys)
                continue
            found = self._rows[candidate.id, quantity]
            np.concatenate([found[key] for key in keys], out=row)
            if is_all and self._is_large:
                self._q_cache.keep_joined(candidate.id, quantity, self._episodes, row)
        return joined

    def join_actions(self, candidates: Sequence[Candidate], facts: Sequence[EpisodeFacts]) -> np.ndarray:
        """Each candidate's own action at every step, (C, N, A) float32, the episodes concatenated."""
        keys = [(fact.id, fact.file_sha256) for fact in facts]
        return np.stack([np.concatenate([self._rows[one.id, ACTED][key] for key in keys]) for one in candidates])

    def look_at_search(self, candidate: Candidate, facts: Sequence[EpisodeFacts]) -> SearchLook:
        """What was measured of a candidate's own action search in these episodes."""
        if candidate.id not in self._searches:
            return SearchLook(is_standard=True)
        found = self._searches[candidate.id]
        keys = [(fact.id, fact.file_sha256) for fact in facts]
        shortfalls = [float(np.nanmax(found[key])) for key in keys if key in self._searched]
        mean = float(np.mean(shortfalls)) if shortfalls else 0.0
        reach = measure_reach(candidate.manifest.task, candidate.manifest.input.action_space)
        return SearchLook(False, len(shortfalls), mean, reach)

    def _read(self, candidate_id: str, quantity: str) -> None:
        name = (candidate_id, quantity)
        if quantity == ACTED:  # kept by episode only
            self._rows[name] = self._q_cache.read(candidate_id, quantity)
            return
        if self._is_large and self._lengths is not None:
            total = int(self._lengths.sum())
            whole = self._q_cache.read_joined(candidate_id, quantity, self._episodes, total)
            if whole is not None:
                self._joined[name] = whole
                return
        self._rows[name] = rows = self._q_cache.read(candidate_id, quantity)
        if self._is_large and all(key in rows for key in self._keys):
            self._joined[name] = whole = np.concatenate([rows[key] for key in self._keys])
            self._q_cache.keep_joined(candidate_id, quantity, self._episodes, whole)
            del self._rows[name]

    def _take(self, whole: np.ndarray, keys: Sequence[EpisodeKey]) -> np.ndarray:
        """The values on some of the episodes."""
        assert self._lengths is not None
        wanted = set(keys)
        return np.asarray(whole[np.repeat([key in wanted for key in self._keys], self._lengths)])
