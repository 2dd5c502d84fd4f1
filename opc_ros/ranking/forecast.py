"""The predicted success of every candidate in a ranking, given the results so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opc_ros.errors import RankingError
from opc_ros.ranking.predicted_success import Field, PredictedSuccess, predict_success
from opc_ros.ranking.ranking import Ranking
from opc_ros.ranking.success_model import Prior
from opc_ros.scoring import find_ranking_metric
from opc_ros.scoring.metric import find_asked

CONFIDENCE = 0.95  # of the intervals shown to people
_DRAWS = 2000
# Scores by a judge of actions have been shown to order candidates less well than their own Q does: until results say
# more, they count for little and intervals stay wide.
JUDGED = Prior(slope=0.2, slope_sd=0.8)


@dataclass(frozen=True, slots=True)
class Expected:
    """One candidate's predicted success."""

    mean: float
    low: float
    high: float

    def describe(self) -> str:
        """For people: `71 % (58 to 82)`."""
        return f"{100 * self.mean:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f})"

    def contains(self, rate: float) -> bool:
        """Whether the interval contains this rate when both are rounded to whole percent.

        An interval with equal tails never quite reaches 0, which is the true rate of policies that never succeed.
        """
        low, read, high = (float(f"{100 * each:.0f}") for each in (self.low, rate, self.high))
        return low <= read <= high


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Rank correlation of scores with true success over the whole field, as far as results determine it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted success of a whole field."""

    ids: tuple[str, ...]
    scores: np.ndarray  # (K,)
    predicted: PredictedSuccess
    _near: dict[float, np.ndarray] = field(default_factory=dict, repr=False, compare=False)  # answers already computed
    _agreed: dict[int, RankAgreement] = field(default_factory=dict, repr=False, compare=False)  # by seed

    def expected(self, candidate_id: str) -> Expected:
        """The candidate's success rate with its interval."""
        index = self.index(candidate_id)
        alone = self.predicted.select([index])
        low, high = alone.interval(CONFIDENCE)[0].tolist()
        return Expected(float(alone.mean()[0]), low, high)

    def chance_within(self, candidate_id: str, tolerance: float) -> float:
        """Probability of being at most `tolerance` below the best of the field."""
        if tolerance not in self._near:
            self._near[tolerance] = self.predicted.within(tolerance)
        return float(self._near[tolerance][self.index(candidate_id)])

    def chance_above(self, candidate_id: str, floor: float) -> float:
        """Probability of a success rate of at least `floor`."""
        return float(self.predicted.select([self.index(candidate_id)]).above(floor)[0])

    def chance_better(self, candidate_id: str, other_id: str) -> float:
        """Probability of being better than another."""
        pair = self.predicted.select([self.index(candidate_id), self.index(other_id)])
        return float(pair.better_than(1)[0])

    def index(self, candidate_id: str) -> int:
        """The candidate's index in the arrays."""
        try:
            return self.ids.index(candidate_id)
        except ValueError:
            raise RankingError(f"candidate {candidate_id[:12]} is not in the field of {len(self.ids)}") from None

    def agreement(self, seed: int = 0) -> RankAgreement:
        """Agreement of scores and success over everyone, not only over those that were good enough to be tried.

        Success of untried candidates is drawn from the model, so that trying only the best-scored does not make a good
        score look bad (restriction of range).
        """
        if seed not in self._agreed:
            rates = self.predicted.sample(_DRAWS, np.random.default_rng(seed))
            found = _rank_correlations(self.scores, rates)
            low, high = np.quantile(found, [0.025, 0.975]).tolist()
            self._agreed[seed] = RankAgreement(float(found.mean()), low, high)
        return self._agreed[seed]


def forecast_ranking(ranking: Ranking, results: Mapping[str, tuple[int, int]]) -> Forecast:
    """Predict success for everyone in a ranking; `results` are successes and episodes of those that have run."""
    placed = ranking.candidates
    ids = tuple(candidate.candidate_id for candidate in placed)
    counts = [results.get(candidate_id, (0, 0)) for candidate_id in ids]
    families = [candidate.family or candidate.candidate_id for candidate in placed]
    prior = Prior() if is_of_q(ranking) else JUDGED
    return forecast(ids, [candidate.score for candidate in placed], counts, families, prior)


def is_of_q(ranking: Ranking) -> bool:
    """Whether candidates were ranked by their own Q, rather than by how a judge rates their actions."""
    return find_asked(find_ranking_metric(ranking.metric)) == "q"


def forecast(
    ids: Sequence[str],
    scores: Sequence[float],
    counts: Sequence[tuple[int, int]],
    families: Sequence[str],
    prior: Prior | None = None,
) -> Forecast:
    """Predict success for a field given as separate sequences."""
    field = Field.of(scores, [count[0] for count in counts], [count[1] for count in counts], families)
    return Forecast(tuple(ids), field.scores, predict_success(field, prior))


def _rank_correlations(scores: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Spearman of one set of scores (K,) with each row of rates (R, K); 0 if all scores are equal."""
    if scores.size < 2 or np.ptp(scores) == 0:
        return np.zeros(len(rates))
    from scipy.stats import rankdata

    x, y = rankdata(scores), rankdata(rates, axis=1)
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    return np.asarray(y @ x / np.sqrt((x @ x) * (y * y).sum(axis=1)))
