"""What the Q cache already has for a set of episodes, and what has been computed since."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from opc_ros.errors import QCacheError
from opc_ros.policies.action_space import measure_reach
from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.evaluation import ChunkResult, EvaluationPlan
from opc_ros.scoring.own_search import SEARCH, is_standard
from opc_ros.scoring.q_cache import ACTED, EpisodeFacts, EpisodeKey, KnownEpisodes, QCache
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.source import EpisodeRef
from opc_ros.scoring.value_rows import ValueRows, gather_rows

# With this many episodes, values are read again one candidate at a time instead of held, and also kept in one piece.
LARGE_SET = 2000


class KnownValues:
    """Values by candidate and quantity; those of a large set stay in the Q cache until they are joined."""

    def __init__(
        self, q_cache: QCache, candidates: Sequence[Candidate], plan: EvaluationPlan, refs: Sequence[EpisodeRef]
    ) -> None:
        self._q_cache = q_cache
        self._quantities = plan.quantities
        self._refs = refs
        self._episodes = _digest(refs)
        self._known = q_cache.find_episodes(refs)
        self._lengths = self._known.lengths  # (E,), 0 where nobody was scored yet
        self._kept = self._known
        self._is_outdated = False
        self._rows: dict[tuple[str, str], dict[EpisodeKey, np.ndarray]] = {}
        if len(refs) < LARGE_SET:
            for each in candidates:
                self._rows |= {(each.id, quantity): q_cache.read(each.id, quantity) for quantity in plan.quantities}
        self._searched = plan.searched
        self._searches = {
            each.id: q_cache.read(each.id, SEARCH)
            for each in candidates
            if plan.searched and not is_standard(each.manifest)
        }

    def find_present(self, candidate_id: str) -> np.ndarray:
        """Whether everything the plan asks for is present, for each episode, (E,) bool."""
        present = np.ones(len(self._refs), dtype=np.bool_)
        for quantity in self._quantities:
            rows = self._rows.get((candidate_id, quantity))
            if rows is not None:
                present &= np.fromiter((ref.key in rows for ref in self._refs), np.bool_, len(self._refs))
            elif self._read_piece(candidate_id, quantity) is None:
                found = np.zeros_like(present)
                for place, _ in self._q_cache.read_each(candidate_id, quantity, self._known):
                    found[place] = True
                present &= found
        if candidate_id in self._searches:
            lacking = self._searched - self._searches[candidate_id].keys()
            present &= np.fromiter((ref.key not in lacking for ref in self._refs), np.bool_, len(self._refs))
        return present

    def add(self, result: ChunkResult) -> None:
        """Take in what has been appended to the Q cache."""
        self._is_outdated = True
        for entry in result.entries:
            if entry.quantity == SEARCH:
                self._searches[entry.candidate_id][entry.episode] = entry.values
            elif (entry.candidate_id, entry.quantity) in self._rows:
                self._rows[entry.candidate_id, entry.quantity][entry.episode] = entry.values

    def keep(self, refs: Sequence[EpisodeRef]) -> tuple[EpisodeFacts, ...]:
        """From now on only these episodes of the set count; what is known of each."""
        if self._is_outdated or len(refs) < len(self._refs):
            self._kept = self._q_cache.find_episodes(refs)
        facts = tuple(each for each in self._kept.facts if each is not None)
        if len(facts) < len(refs):
            raise QCacheError(f"Q cache {self._q_cache.path}: somebody has removed what was put in: score again")
        return facts

    def join(self, candidates: Sequence[Candidate], quantity: str) -> ValueRows:
        """One row for each candidate, (C, N) float32, or (C, N, A) of actions, the episodes concatenated."""
        rows = (self._join_one(candidate, quantity) for candidate in candidates)
        return gather_rows(rows, len(candidates), self._q_cache.path.parent)

    def look_at_search(self, candidate: Candidate) -> SearchLook:
        """What was measured of a candidate's own action search in these episodes."""
        if candidate.id not in self._searches:
            return SearchLook(is_standard=True)
        found = self._searches[candidate.id]
        keys = [ref.key for ref in self._kept.refs]
        shortfalls = [float(np.nanmax(found[key])) for key in keys if key in self._searched]
        mean = float(np.mean(shortfalls)) if shortfalls else 0.0
        reach = measure_reach(candidate.manifest.task, candidate.manifest.input.action_space)
        return SearchLook(False, len(shortfalls), mean, reach)

    def _join_one(self, candidate: Candidate, quantity: str) -> np.ndarray:
        """A candidate's values on the episodes that count, (N,), or (N, A) of actions."""
        rows = self._rows.get((candidate.id, quantity))
        if rows is not None:
            return np.concatenate([rows[ref.key] for ref in self._kept.refs])
        whole = self._read_piece(candidate.id, quantity)
        is_all = len(self._kept.refs) == len(self._refs)
        if whole is not None:
            return whole if is_all else self._take(whole)
        joined = read_row(self._q_cache, candidate.id, quantity, self._kept)
        if joined is None:
            raise QCacheError(
                f"Q cache {self._q_cache.path}: values of candidate {candidate.name} that were there are gone, or "
                "sealed by another scorer since: score again"
            )
        if is_all and self._is_kept_in_one_piece(quantity):
            self._q_cache.keep_joined(candidate.id, quantity, self._episodes, joined)
        return joined

    def _read_piece(self, candidate_id: str, quantity: str) -> np.ndarray | None:
        """A candidate's values on all episodes of a large set, (N,), where the last score left them in one piece."""
        if not self._is_kept_in_one_piece(quantity) or not self._lengths.all():
            return None
        return self._q_cache.read_joined(candidate_id, quantity, self._episodes, int(self._lengths.sum()))

    def _is_kept_in_one_piece(self, quantity: str) -> bool:
        return len(self._refs) >= LARGE_SET and quantity != ACTED  # actions are kept by episode alone

    def _take(self, whole: np.ndarray) -> np.ndarray:
        """Of values on all episodes those on the ones that count."""
        kept = {ref.id for ref in self._kept.refs}
        return np.asarray(whole[np.repeat([ref.id in kept for ref in self._refs], self._lengths)])


def read_row(q_cache: QCache, candidate_id: str, quantity: str, known: KnownEpisodes) -> np.ndarray | None:
    """A candidate's values on all of these episodes, (N,), or (N, A) of actions; None where one lacks."""
    steps = known.lengths.tolist()
    starts = [0, *np.cumsum(known.lengths).tolist()]
    lacking = len(steps)
    joined, target, step_bytes = np.empty((0, 1), dtype="<f4"), memoryview(b""), 0
    for place, data in q_cache.read_each(candidate_id, quantity, known):
        if not step_bytes:  # as many numbers for each step as in the first episode
            step_bytes = len(data) // steps[place]
            joined = np.empty((starts[-1], step_bytes // 4), dtype="<f4")
            target = joined.data.cast("B")
        if len(data) == step_bytes * steps[place]:
            target[step_bytes * starts[place] : step_bytes * starts[place + 1]] = data
            lacking -= 1
    if lacking:
        return None
    return joined if quantity == ACTED else joined.reshape(-1)


def _digest(refs: Sequence[EpisodeRef]) -> str:
    """What a large set is known by."""
    digest = hashlib.sha256()
    for place, ref in enumerate(refs):
        digest.update(f"{chr(10) if place else ''}{ref.id} {ref.file_sha256}".encode())
    return digest.hexdigest()
