"""A ranking of candidates as a value: order, uncertainty, what it is based on, and its canonical JSON."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import RankingError
from opc_ros.scoring import ranking_metric_names
from opc_ros.scoring.search_look import SearchLook

FORMAT = "opc-ranking/3"
WITHOUT_SEARCHES = "opc-ranking/2"  # still read and written unchanged, so that its id and signature stay valid
Scope = Literal["registry", "selection"]  # everything that was registered, or only what was asked for


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One candidate's place among others."""

    candidate_id: str
    name: str
    score: float
    score_interval: tuple[float, float]
    rank: int  # 1 is best; ties are ordered by candidate id
    rank_interval: tuple[int, int]
    top_k_probability: float
    family: str = ""  # candidates of one family have correlated errors; empty: it is alone in its family
    own_episodes: int = 0  # not counted for it, because it played them or was trained on them
    bias: float = 0.0  # by how much the score is expected to be too high, as the best of many thresholds

    @property
    def unbiased(self) -> float:
        """The score to print: what a larger set is expected to give."""
        return self.score - self.bias

    answers: tuple[float, ...] = ()  # its Q at the ranking's probes
    search: SearchLook | None = None  # how much its own action search misses; None: not measured by that version
    hidden_chance: float = 1.0  # of its lead on shown over hidden episodes being luck; 1 if they agree


@dataclass(frozen=True, slots=True)
class LeftOutCandidate:
    """A candidate without a rank because it could not be scored."""

    candidate_id: str  # empty if not even its id is known
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates from best to worst on one snapshot of the validation set."""

    metric: str
    prior: float
    confidence: float
    top_k: int
    resamples: int
    seed: int  # of the resamples
    snapshot_id: str
    q_digest: str  # sha256 over every Q value it is based on, see `digest_q_values`
    scope: Scope
    episodes: int
    successes: int
    candidates: tuple[RankedCandidate, ...]
    left_out: tuple[LeftOutCandidate, ...]
    beats: tuple[tuple[float, ...], ...]  # [i][j]: probability that the i-th candidate scores above the j-th
    hidden_episodes: int = 0  # their number only; which ones is secret
    probes: tuple[str, ...] = ()  # states by which a policy can be recognised, see `choose_probes`

    def __post_init__(self) -> None:
        _check_whole(self)

    @property
    def ranking_id(self) -> str:
        """sha256 of the canonical bytes: changing any figure makes another ranking."""
        return _identify(self)

    def canonical_bytes(self) -> bytes:
        """What is hashed and signed."""
        return self.to_json().encode()

    def find(self, candidate_id: str) -> RankedCandidate:
        """The candidate with this id."""
        return self.candidates[self._index(candidate_id)]

    def answers_of(self, candidate_id: str) -> dict[str, float]:
        """A candidate's answers at the probes; empty if it is not ranked or there are no probes."""
        answers = next((each.answers for each in self.candidates if each.candidate_id == candidate_id), ())
        return dict(zip(self.probes, answers, strict=False))

    def probability_beats(self, candidate_id: str, other_id: str) -> float:
        """Probability that one candidate scores above another; a tie counts half."""
        return self.beats[self._index(candidate_id)][self._index(other_id)]

    def _index(self, candidate_id: str) -> int:
        for index, candidate in enumerate(self.candidates):
            if candidate.candidate_id == candidate_id:
                return index
        raise RankingError(f"candidate {candidate_id} is not among the {len(self.candidates)} ranked: score it first")

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no whitespace, shortest exact numbers; equal rankings give equal text."""
        content = {"format": FORMAT, **asdict(self)}
        if all(candidate.search is None for candidate in self.candidates):
            content["format"] = WITHOUT_SEARCHES
            for candidate in content["candidates"]:
                del candidate["search"]
        return canonical_json(content)

    @classmethod
    def from_json(cls, text: str) -> Ranking:
        """Read what `to_json` wrote; anything missing or unknown, or another version, is an error."""
        content = parse_json(text, where="ranking", error=RankingError)
        if not isinstance(content, dict) or content.pop("format", None) not in (FORMAT, WITHOUT_SEARCHES):
            raise RankingError(f"ranking has another format, expected {FORMAT}: rank again with this version")
        return parse_config(content, cls, where="ranking", error=RankingError)


@lru_cache(maxsize=32)
def _identify(ranking: Ranking) -> str:
    """Cached, because the gate keeps asking for the id of the same ranking."""
    return hashlib.sha256(ranking.canonical_bytes()).hexdigest()


def _check_whole(ranking: Ranking) -> None:
    """Refuse a ranking that contradicts itself, wherever it came from."""
    candidates = ranking.candidates
    if ranking.metric not in ranking_metric_names():
        raise RankingError(
            f"ranking has metric {ranking.metric!r}, expected one of {', '.join(ranking_metric_names())}"
        )
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
        _check_figures(candidate, len(candidates))
        if len(candidate.answers) != len(ranking.probes) or not all(map(math.isfinite, candidate.answers)):
            raise RankingError(f"candidate {candidate.candidate_id}: expected an answer to each probe")
    if [len(row) for row in ranking.beats] != [len(candidates)] * len(candidates):
        raise RankingError(f"beats is not {len(candidates)} by {len(candidates)}")
    probabilities = (ranking.prior, ranking.confidence, *(value for row in ranking.beats for value in row))
    if not all(0.0 <= value <= 1.0 for value in probabilities):
        raise RankingError("prior, confidence and beats are not all probabilities from 0 to 1")
    if not 1 <= ranking.top_k <= len(candidates):
        raise RankingError(f"ranking has top_k {ranking.top_k}, expected 1 to {len(candidates)}")
    if not 0 < ranking.successes < ranking.episodes:
        raise RankingError(
            f"ranking rests on {ranking.successes} successes in {ranking.episodes} episodes, expected both outcomes"
        )


def _check_figures(candidate: RankedCandidate, worst: int) -> None:
    low, high = candidate.score_interval
    first, last = candidate.rank_interval
    if not (math.isfinite(low) and math.isfinite(high) and low <= candidate.score <= high):
        raise RankingError(f"candidate {candidate.candidate_id}: score {candidate.score} lies outside {low} to {high}")
    if not 1 <= first <= candidate.rank <= last <= worst:
        raise RankingError(f"candidate {candidate.candidate_id}: rank {candidate.rank} lies outside {first} to {last}")
    if not 0.0 <= candidate.hidden_chance <= 1.0:
        raise RankingError(f"candidate {candidate.candidate_id}: hidden chance is {candidate.hidden_chance}")
    if not 0.0 <= candidate.top_k_probability <= 1.0:
        raise RankingError(
            f"candidate {candidate.candidate_id}: probability of the top k is {candidate.top_k_probability}"
        )
