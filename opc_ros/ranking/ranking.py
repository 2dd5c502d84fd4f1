"""A ranking of candidates as a value: order, uncertainty, what it rests on, and its canonical JSON."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from opc_ros.errors import RankingError
from opc_ros.scoring import METRIC_NAMES, MetricName

FORMAT = "opc-ranking/1"


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One candidate's place among others."""

    candidate_id: str
    name: str
    score: float
    score_interval: tuple[float, float]
    rank: int  # 1 is best; equal scores are ordered by candidate id
    rank_interval: tuple[int, int]
    top_k_probability: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates from best to worst on one snapshot of the validation set."""

    metric: MetricName
    prior: float
    confidence: float
    top_k: int
    resamples: int
    snapshot_id: str
    episodes: int
    successes: int
    candidates: tuple[RankedCandidate, ...]
    beats: tuple[tuple[float, ...], ...]  # [i][j]: probability that the i-th candidate scores above the j-th

    def __post_init__(self) -> None:
        _check_whole(self)

    @property
    def ranking_id(self) -> str:
        """sha256 of the canonical JSON: any change to any figure is another ranking."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def find(self, candidate_id: str) -> RankedCandidate:
        """The candidate with this id."""
        return self.candidates[self._index(candidate_id)]

    def probability_beats(self, candidate_id: str, other_id: str) -> float:
        """Probability that one candidate scores above another; a tie counts half."""
        return self.beats[self._index(candidate_id)][self._index(other_id)]

    def _index(self, candidate_id: str) -> int:
        for index, candidate in enumerate(self.candidates):
            if candidate.candidate_id == candidate_id:
                return index
        raise RankingError(f"candidate {candidate_id} is not among the {len(self.candidates)} ranked: score it first")

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no blanks, shortest exact numbers; equal rankings give equal text."""
        content = {"format": FORMAT, **asdict(self)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Ranking:
        """Read what `to_json` wrote; anything missing, unknown or of another version is an error."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise RankingError(f"ranking is not JSON: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise RankingError(f"ranking has another format, expected {FORMAT}: rank again with this version")
        _check_keys(content, cls)
        try:
            content["candidates"] = tuple(_read_candidate(entry) for entry in content["candidates"])
            content["beats"] = tuple(tuple(map(float, row)) for row in content["beats"])
            return cls(**content)
        except (TypeError, ValueError) as error:
            raise RankingError(f"ranking holds a value of the wrong kind: {error}") from None


def _read_candidate(entry: dict[str, Any]) -> RankedCandidate:
    _check_keys(entry, RankedCandidate)
    low, high = entry["score_interval"]
    best, worst = entry["rank_interval"]
    return RankedCandidate(
        candidate_id=str(entry["candidate_id"]),
        name=str(entry["name"]),
        score=float(entry["score"]),
        score_interval=(float(low), float(high)),
        rank=int(entry["rank"]),
        rank_interval=(int(best), int(worst)),
        top_k_probability=float(entry["top_k_probability"]),
    )


def _check_keys(content: dict[str, Any], kind: type[Ranking] | type[RankedCandidate]) -> None:
    expected = {field.name for field in fields(kind)}
    for problem, keys in (("lacks", expected - content.keys()), ("has unknown", content.keys() - expected)):
        if keys:
            raise RankingError(f"{kind.__name__} {problem} {', '.join(sorted(keys))}")


def _check_whole(ranking: Ranking) -> None:
    """Refuse a ranking that contradicts itself, wherever it came from."""
    candidates = ranking.candidates
    if ranking.metric not in METRIC_NAMES:
        raise RankingError(f"ranking has metric {ranking.metric!r}, expected one of {', '.join(METRIC_NAMES)}")
    if not candidates:
        raise RankingError("ranking has no candidate, expected at least one")
    if len({candidate.candidate_id for candidate in candidates}) != len(candidates):
        raise RankingError("ranking names a candidate twice")
    if [candidate.rank for candidate in candidates] != list(range(1, len(candidates) + 1)):
        raise RankingError(f"ranks are not 1 to {len(candidates)} in order")
    keys = [(-candidate.score, candidate.candidate_id) for candidate in candidates]
    if keys != sorted(keys):
        raise RankingError("candidates are not in order of score, then candidate id")
    for candidate in candidates:
        figures = (candidate.score, *candidate.score_interval, candidate.top_k_probability)
        if not all(map(math.isfinite, figures)):
            raise RankingError(f"candidate {candidate.candidate_id} has figures {figures}, expected finite numbers")
    if [len(row) for row in ranking.beats] != [len(candidates)] * len(candidates):
        raise RankingError(f"beats is not {len(candidates)} by {len(candidates)}")
    if not 0 < ranking.successes < ranking.episodes:
        raise RankingError(
            f"ranking rests on {ranking.successes} successes in {ranking.episodes} episodes, expected both outcomes"
        )
