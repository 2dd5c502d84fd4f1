"""What changed between two rankings: who moved, who is new, who is gone, and whether they can be compared at all."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.errors import ScoreError
from opc_ros.ranking.agreement import spearman
from opc_ros.ranking.ranking import RankedCandidate, Ranking


@dataclass(frozen=True, slots=True)
class Move:
    """One candidate's place before and after; None if it was not ranked."""

    candidate_id: str
    name: str
    before: RankedCandidate | None
    after: RankedCandidate | None

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether the rank intervals before and after do not overlap."""
        if self.before is None or self.after is None:
            return False
        first, second = self.before.rank_interval, self.after.rank_interval
        return first[1] < second[0] or second[1] < first[0]


@dataclass(frozen=True, slots=True)
class RankingComparison:
    """Two rankings side by side."""

    before_id: str
    after_id: str
    differences: tuple[str, ...]  # in what they are based on: a sentence each
    spearman: float | None  # of the scores of candidates in both; None with fewer than two, or if all scores are equal
    moves: tuple[Move, ...]  # in the new order, then those that are gone in the old order


def compare_rankings(before: Ranking, after: Ranking) -> RankingComparison:
    """Candidates are matched by id."""
    old = {candidate.candidate_id: candidate for candidate in before.candidates}
    new = {candidate.candidate_id: candidate for candidate in after.candidates}
    moves = [Move(key, found.name, old.get(key), found) for key, found in new.items()]
    moves += [Move(key, found.name, found, None) for key, found in old.items() if key not in new]
    return RankingComparison(
        before_id=before.ranking_id,
        after_id=after.ranking_id,
        differences=tuple(_differences(before, after)),
        spearman=_agree([(old[key].score, found.score) for key, found in new.items() if key in old]),
        moves=tuple(moves),
    )


def _differences(before: Ranking, after: Ranking) -> list[str]:
    found = []
    if before.snapshot_id != after.snapshot_id:
        found.append(
            f"episodes: {before.episodes:,} with {before.successes:,} successes (snapshot {before.snapshot_id[:12]}), "
            f"then {after.episodes:,} with {after.successes:,} (snapshot {after.snapshot_id[:12]})"
        )
    settings = ("metric", "prior", "resamples", "seed", "confidence", "scope")
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in settings]
    return found + [f"{name}: {old}, then {new}" for name, old, new in pairs if old != new]


def _agree(pairs: list[tuple[float, float]]) -> float | None:
    try:
        return spearman([old for old, _ in pairs], [new for _, new in pairs])
    except ScoreError:
        return None
