"""Predicted success: each candidate's success rate with an interval, from offline scores and all results so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import LengthMismatch, ScoreError
from opc_ros.ranking.success_model import (
    EDGES,
    RATES,
    SHAPES,
    Points,
    Prior,
    chance_above,
    chance_better,
    chance_within,
    conditional,
    correlation_of,
    line_position,
    log_likelihood,
    marginal,
    spread_points,
    weigh_points,
)

SIBLING_CORRELATION = 0.5  # of the errors of candidates in one family
_ZOOMS = 3
_SIDE = 13  # points along each axis of the line's quadrature
_REACH = 3.6  # standard deviations that it spans on each side
_NEGLIGIBLE = 1e-4  # of the heaviest point's weight
_LEAST_POINTS, _MOST_DENSITIES = 600, 50_000  # points kept, and points times candidates if that allows more


@dataclass(frozen=True, slots=True)
class Field:
    """Every candidate there is, with results or without."""

    scores: np.ndarray  # (K,)
    families: tuple[str, ...]  # (K,) candidates of one family have correlated errors
    successes: np.ndarray  # (K,) of real episodes
    trials: np.ndarray  # (K,)

    def __post_init__(self) -> None:
        shapes = {self.scores.shape, self.successes.shape, self.trials.shape, (len(self.families),)}
        if len(shapes) != 1 or self.scores.ndim != 1 or not self.scores.size:
            raise LengthMismatch(f"a field has shapes {sorted(shapes)}, expected one of each for every candidate")
        if not np.isfinite(self.scores).all():
            raise ScoreError("a score is not finite, expected numbers")
        if np.any(self.successes < 0) or np.any(self.successes > self.trials):
            raise ScoreError("successes must lie between 0 and the number of real episodes")

    @classmethod
    def of(
        cls, scores: ArrayLike, successes: ArrayLike, trials: ArrayLike, families: Sequence[str] | None = None
    ) -> Field:
        """From array-likes; without families every candidate has its own."""
        found = np.asarray(scores, dtype=np.float64)
        names = tuple(families) if families is not None else tuple(str(index) for index in range(found.size))
        return cls(found, names, np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))

    def standardised(self) -> np.ndarray:
        """Scores in standard deviations from the field's mean, (K,)."""
        spread = self.scores.std()
        return np.asarray((self.scores - self.scores.mean()) / (spread if spread > 0.0 else 1.0))

    def say(self) -> np.ndarray:
        """Weight of each candidate's results in the fit of the line, (K,): siblings with results share theirs."""
        tried = Counter(family for family, trials in zip(self.families, self.trials, strict=True) if trials > 0)
        return np.array([1.0 / (1.0 + SIBLING_CORRELATION * max(0, tried[family] - 1)) for family in self.families])


@dataclass(frozen=True, slots=True)
class PredictedSuccess:
    """The posterior of every candidate's success rate, given all scores and all results."""

    weight: np.ndarray  # (H,) of each point of the quadrature
    density: np.ndarray  # (H, K, G) of success rates at each point
    slope: tuple[float, float, float]  # logits per standard deviation of score: mean, low and high end of 95 %
    scatter: float  # mean scatter of logits about the line
    duds: float  # expected share of candidates whose score says nothing
    correlation: float  # expected correlation of score and logit of success, duds aside

    def select(self, index: Sequence[int] | np.ndarray) -> PredictedSuccess:
        """The same, restricted to some candidates."""
        return replace(self, density=self.density[:, np.asarray(index, dtype=np.intp)])

    def mean(self) -> np.ndarray:
        """Expected success rate, (K,)."""
        return np.asarray(self.marginal() @ RATES)

    def interval(self, confidence: float = 0.95) -> np.ndarray:
        """Credible interval of each candidate's success rate, (K, 2), with equal tails."""
        tail = (1.0 - confidence) / 2.0
        cumulated = np.concatenate([np.zeros((self.density.shape[1], 1)), np.cumsum(self.marginal(), axis=1)], axis=1)
        return np.array([np.interp([tail, 1.0 - tail], row, EDGES) for row in cumulated])

    def within(self, tolerance: float) -> np.ndarray:
        """Probability of being at most `tolerance` below the best of the field, (K,)."""
        return np.asarray(self.weight @ chance_within(self.density, tolerance))

    def above(self, floor: float) -> np.ndarray:
        """Probability of a success rate of at least `floor`, (K,)."""
        return np.asarray(self.weight @ chance_above(self.density, floor))

    def below(self, rate: float) -> np.ndarray:
        """Probability of a success rate below this one, (K,)."""
        return 1.0 - self.above(rate)

    def better_than(self, other: int, margin: float = 0.0) -> np.ndarray:
        """Probability of being better than one candidate of the field, (K,)."""
        return np.asarray(self.weight @ chance_better(self.density, other, margin))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Success rates drawn jointly for all candidates, (count, K)."""
        at = rng.choice(self.weight.size, size=count, p=self.weight)
        cumulated = np.cumsum(self.density[at], axis=-1)
        cell = (cumulated < rng.random((*cumulated.shape[:-1], 1))).sum(axis=-1).clip(max=RATES.size - 1)
        return np.asarray(EDGES[cell] + rng.random(cell.shape) * (EDGES[cell + 1] - EDGES[cell]))

    def marginal(self) -> np.ndarray:
        """Each candidate's density over the grid of rates, (K, G)."""
        return np.asarray(np.einsum("h,hkg->kg", self.weight, self.density))


def predict_success(field: Field, prior: Prior | None = None) -> PredictedSuccess:
    """Fit line and scatter to all results, and apply them with their uncertainty to every candidate."""
    prior = prior or Prior()
    z = field.standardised()
    likelihood = np.exp(log_likelihood(field.successes, field.trials))
    tried = field.trials > 0  # only these inform the line, and a field may hold a thousand
    points, weight = _zoom(prior, z[tried], marginal(likelihood[tried]), field.say()[tried])
    points, weight = _thin(points, weight, max(_LEAST_POINTS, _MOST_DENSITIES // z.size))
    low, share = line_position(points.intercept[:, None], points.slope[:, None], z)
    density = conditional(likelihood, points.shape[:, None], low, share)
    slope = _summarise(points.slope, weight)
    scatter = np.array([SHAPES[shape].scatter for shape in points.shape])
    return PredictedSuccess(
        weight,
        density,
        slope,
        float(weight @ scatter),
        float(weight @ np.array([SHAPES[shape].duds for shape in points.shape])),
        float(weight @ correlation_of(points.slope, scatter)),
    )


def _zoom(prior: Prior, z: np.ndarray, chance: np.ndarray, say: np.ndarray) -> tuple[Points, np.ndarray]:
    """Points where the posterior is: first a wide grid, then finer ones around its mass."""
    points = spread_points(
        prior.intercept + prior.intercept_sd * np.linspace(-_REACH, _REACH, 25),
        prior.slope + prior.slope_sd * np.linspace(-_REACH, _REACH, 19),
    )
    weight = weigh_points(points, prior, z, chance, say)
    spacing = np.array([prior.intercept_sd * 2 * _REACH / 24, prior.slope_sd * 2 * _REACH / 18])
    for _ in range(_ZOOMS):
        points, spacing = _closer(points, weight, spacing)
        weight = weigh_points(points, prior, z, chance, say)
    return points, weight


def _thin(points: Points, weight: np.ndarray, most: int) -> tuple[Points, np.ndarray]:
    """The points that matter; if there are too many, a subset evenly spaced by weight, each with the same weight."""
    keep = np.flatnonzero(weight > _NEGLIGIBLE * weight.max())
    found = weight[keep] / weight[keep].sum()
    if keep.size > most:
        # Sorted by shape, then by the line's value for an average candidate, so that neighbours can represent each
        # other.
        keep = keep[np.lexsort((points.slope[keep], points.intercept[keep], points.shape[keep]))]
        levels = (np.arange(most) + 0.5) / most
        at = np.searchsorted(np.cumsum(weight[keep]) / weight[keep].sum(), levels).clip(max=keep.size - 1)
        chosen, counts = np.unique(at, return_counts=True)
        keep, found = keep[chosen], counts / most
    kept = Points(points.intercept[keep], points.slope[keep], points.shape[keep], points.log_area[keep])
    return kept, found


def _closer(points: Points, weight: np.ndarray, spacing: np.ndarray) -> tuple[Points, np.ndarray]:
    """For each shape, a grid along the main axes of the lines that are plausible with it."""
    side = np.linspace(-_REACH, _REACH, _SIDE)
    offsets = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    lines = np.column_stack([points.intercept, points.slope])
    parts, widest = [], np.zeros(2)
    for shape in range(len(SHAPES)):
        is_mine = points.shape == shape
        if weight[is_mine].sum() < _NEGLIGIBLE:
            continue
        mine = weight[is_mine] / weight[is_mine].sum()
        mean = mine @ lines[is_mine]
        about = lines[is_mine] - mean
        # A grid coarser than the posterior sees it as a single point, so never assume a width below the spacing.
        covariance = (mine[:, None] * about).T @ about + np.diag((spacing / 2.0) ** 2)
        root = np.linalg.cholesky(covariance)
        parts.append((mean + offsets @ root.T, shape, np.log(np.linalg.det(root))))
        widest = np.maximum(widest, np.abs(root).sum(axis=1) * 2 * _REACH / (_SIDE - 1))
    found = Points(
        np.concatenate([at[:, 0] for at, _, _ in parts]),
        np.concatenate([at[:, 1] for at, _, _ in parts]),
        np.repeat([shape for _, shape, _ in parts], len(offsets)),
        np.repeat([area for _, _, area in parts], len(offsets)),
    )
    return found, widest


def _summarise(values: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    order = np.argsort(values)
    low, high = np.interp([0.025, 0.975], np.cumsum(weight[order]), values[order]).tolist()
    return float(weight @ values), low, high
