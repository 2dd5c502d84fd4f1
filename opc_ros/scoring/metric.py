"""What a metric is: an object that scores one candidate's Q values, and may score many under resampled episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.scoring.transitions import Episodes

Direction = Literal["higher is better", "lower is better"]
ScoreWeightings = Callable[[np.ndarray], np.ndarray]  # weights (R, E), successes first -> scores (R, C)
UNBOUNDED = (-np.inf, np.inf)
# For each recorded state: Q at the recorded action; how close the candidate's own action is to it; or how a critic
# rates the candidate's own action.
Asks = Literal["q", "agreement", "critic"]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one candidate on one validation set."""

    q: ArrayLike  # (N,), Q at the recorded actions, or whatever else the metric asks for; episodes concatenated
    lengths: ArrayLike  # (E,), transitions of each episode
    success: ArrayLike  # (E,) bool
    q_greedy: ArrayLike | None = None  # (N,), at the policy's own actions, if they were asked for


@dataclass(frozen=True, slots=True)
class CandidatesOnEpisodes:
    """Checked Q values of several candidates; episodes are ordered successes first, so that each outcome is a slice."""

    values: tuple[np.ndarray, ...]  # C of (N,), as recorded
    episodes: Episodes  # as recorded
    order: np.ndarray  # (E,) int64, recorded index of each episode in that order
    lengths: np.ndarray  # (E,) float64, in that order
    successes: int

    def sum_each(self, values: tuple[np.ndarray, ...]) -> np.ndarray:
        """Sums of per-transition arrays, C of (N,), over each episode, (E, C), successes first."""
        return np.stack([self.episodes.sum_each(one)[self.order] for one in values], axis=1)


class Metric(Protocol):
    """One way to score a candidate. To add one, add a module to `scoring/metrics/` that defines METRIC."""

    @property
    def name(self) -> str:
        """Its name in files, messages and arguments, and of its module."""
        ...

    @property
    def title(self) -> str:
        """Its name for people."""
        ...

    @property
    def direction(self) -> Direction: ...

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value it can take."""
        ...

    @property
    def needs_greedy(self) -> bool:
        """Whether it also needs Q at the policy's own actions."""
        ...

    def score(self, answers: Answers, *, prior: float) -> float:
        """The score of one candidate; a metric without a prior ignores it."""
        ...


@runtime_checkable
class RankingMetric(Metric, Protocol):
    """A metric that can order candidates and measure the uncertainty of the order; higher is better."""

    def check_prior_orders(self, prior: float, positives: float) -> None:
        """Refuse a prior that gives every candidate the same score when this share of transitions is positive."""
        ...

    def reweigh(self, candidates: CandidatesOnEpisodes, *, prior: float) -> ScoreWeightings:
        """Prepare candidates once, so that scores under thousands of weightings of the episodes are cheap."""
        ...


def find_asked(metric: Metric) -> Asks:
    """Which numbers it scores: Q, unless the metric has an attribute `asks` that says otherwise."""
    asked: Asks = getattr(metric, "asks", "q")
    return asked
