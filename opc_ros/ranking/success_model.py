"""The hierarchical model behind predicted success, by quadrature.

The logit of a candidate's success rate is a line in its score plus scatter; or the candidate is a dud, which rates
recorded episodes well and then acts badly, so that its score says nothing. Success rates live on a grid of G logits. A
point of the quadrature is one line (intercept, slope) with one shape: a scatter and a share of duds. Given a point,
candidates are independent, so everything asked of the model is a sum over points. Arrays end in (K,) candidates or
(K, G); axes before that are independent fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logsumexp

STEP = 0.125
LOGITS = np.arange(-7.5, 7.5 + STEP / 2, STEP)  # (G,)
RATES = expit(LOGITS)  # (G,)
EDGES = expit(np.append(LOGITS - STEP / 2, LOGITS[-1] + STEP / 2))  # (G + 1,) of the cell each rate stands for
SCATTERS = (0.08, 0.18, 0.35, 0.6, 0.95, 1.4, 2.1)  # of logits about the line
SCATTER_WEIGHTS = (0.06, 0.1, 0.18, 0.24, 0.22, 0.14, 0.06)
DUDS = (0.0, 0.06, 0.16, 0.32)  # share of candidates
DUD_WEIGHTS = (0.35, 0.3, 0.25, 0.1)
DUD_RATES = (0.25, 2.0)  # Beta distribution of a dud's success
STRAYS = 0.03  # share of candidates that may succeed however often, whatever their score says
TAIL = 4.0  # degrees of freedom of the scatter: now and then one is far better or worse than its score says
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Shape:
    """How candidates lie about the line."""

    scatter: float
    duds: float
    weight: float  # before anything has run


SHAPES = tuple(
    Shape(scatter, duds, weight * dud_weight)
    for scatter, weight in zip(SCATTERS, SCATTER_WEIGHTS, strict=True)
    for duds, dud_weight in zip(DUDS, DUD_WEIGHTS, strict=True)
)


def _make_spreads() -> np.ndarray:
    """(scatters, G, G): where success lies about each value of the line; rows sum to one."""
    distance = (LOGITS[None, None, :] - LOGITS[None, :, None]) / np.array(SCATTERS)[:, None, None]
    density = (1.0 + distance**2 / TAIL) ** (-(TAIL + 1.0) / 2.0)
    return np.asarray(density / density.sum(axis=-1, keepdims=True))


def _make_bases() -> np.ndarray:
    """(duds, G): success of those that do not follow the line, with their share."""
    first, second = DUD_RATES
    cells = np.diff(EDGES) / (EDGES[-1] - EDGES[0])
    dud = np.exp(first * log_expit(LOGITS) + second * log_expit(-LOGITS))
    return np.array([duds * dud / dud.sum() + STRAYS * cells for duds in DUDS])


# Given a value of the line and a shape, success lies as FOLLOWS[duds] * SPREADS[scatter, line] + BASES[duds]: kept
# apart, for a table of all 28 shapes would be four times as large and as slow.
SPREADS = _make_spreads()
BASES = _make_bases()
FOLLOWS = 1.0 - STRAYS - np.array(DUDS)  # share of candidates that follow the line


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of line and scatter before anything has run."""

    intercept: float = 0.0  # logit of success at the mean score
    intercept_sd: float = 1.5
    slope: float = 0.7  # logits gained by one standard deviation of score
    slope_sd: float = 0.8

    def log_density(self, intercept: np.ndarray, slope: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Up to a constant; `shape` are indices into SHAPES."""
        weights = np.log([each.weight for each in SHAPES])
        a = (intercept - self.intercept) / self.intercept_sd
        b = (slope - self.slope) / self.slope_sd
        return np.asarray(weights[shape] - 0.5 * a**2 - 0.5 * b**2)


@dataclass(frozen=True, slots=True)
class Points:
    """Points of the quadrature and the log of the area each stands for."""

    intercept: np.ndarray  # (H,)
    slope: np.ndarray  # (H,)
    shape: np.ndarray  # (H,) index into SHAPES
    log_area: np.ndarray  # (H,)


def spread_points(intercepts: np.ndarray, slopes: np.ndarray) -> Points:
    """A regular grid over line and shape."""
    a, b, s = np.meshgrid(intercepts, slopes, np.arange(len(SHAPES)), indexing="ij")
    return Points(a.ravel(), b.ravel(), s.ravel(), np.zeros(a.size))


def correlation_of(slope: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """Of score and logit of success over a field, given the line; scores have a standard deviation of one."""
    return np.asarray(slope / np.hypot(slope, scatter))


def log_likelihood(successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Of each rate on the grid, (..., G), up to a constant for each candidate."""
    s, n = np.asarray(successes, dtype=np.float64)[..., None], np.asarray(trials, dtype=np.float64)[..., None]
    found = s * log_expit(LOGITS) + (n - s) * log_expit(-LOGITS)
    return np.asarray(found - found.max(axis=-1, keepdims=True))


def line_position(intercept: np.ndarray, slope: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where on the grid the line passes each candidate: index below and share of the way to the next."""
    at = np.clip((intercept + slope * z - LOGITS[0]) / STEP, 0.0, LOGITS.size - 1.001)
    low = at.astype(np.int32)
    return low, (at - low).astype(np.float32)


def marginal(likelihood: np.ndarray) -> np.ndarray:
    """Chance of the results given a value of the line and a shape, (..., S, G), of likelihoods (..., G)."""
    about = np.stack([likelihood @ spread.T for spread in SPREADS], axis=-2)[..., :, None, :]
    found = FOLLOWS[:, None] * about + (likelihood @ BASES.T)[..., None, :, None]
    return np.asarray(found.reshape(*likelihood.shape[:-1], len(SHAPES), LOGITS.size))


def conditional(likelihood: np.ndarray, shape: np.ndarray, low: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Density of success rates at points of the quadrature, (..., K, G), as exact as the likelihood is.

    Args:
        likelihood: (..., K, G).
        shape: (..., 1) index into SHAPES.
        low: (..., K), with share as `line_position` gives them.
        share: (..., K).
    """
    spreads, bases, follows = _tables(likelihood.dtype)
    scatter, duds = np.divmod(shape, len(DUDS))
    above = (follows[duds] * share.astype(likelihood.dtype))[..., None]
    density = spreads[scatter, low]
    density *= follows[duds][..., None] - above
    upper = spreads[scatter, low + 1]
    upper *= above
    density += upper
    density += bases[duds]
    density *= likelihood
    density /= density.sum(axis=-1, keepdims=True)
    return np.asarray(density)


@cache
def _tables(dtype: np.dtype[np.floating[Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return SPREADS.astype(dtype), BASES.astype(dtype), FOLLOWS.astype(dtype)


def chance_within(density: np.ndarray, tolerance: float) -> np.ndarray:
    """Probability of being at most `tolerance` below the best, (..., K), of independent densities (..., K, G)."""
    # As one matrix: numpy would multiply the (K, G) of each point on its own.
    below = density.reshape(-1, RATES.size) @ _share_below(tolerance, density.dtype)
    log_below = np.log(np.maximum(below, _LEAST, out=below), out=below).reshape(density.shape)
    others_below = np.exp(log_below.sum(axis=-2, keepdims=True) - log_below)
    return np.asarray(np.einsum("...g,...g->...", density, others_below))


def chance_above(density: np.ndarray, floor: float) -> np.ndarray:
    """Probability of a success rate of at least `floor`, (..., K)."""
    return np.asarray(1.0 - density @ _cells_below(np.array([floor]))[:, 0].astype(density.dtype))


def chance_better(density: np.ndarray, other: int | np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Probability of being better than one other by at least a margin, (..., K); of itself one half without margin.

    `other` is one index for all, or one for each of the axes before, (...).
    """
    at = np.broadcast_to(np.asarray(other), density.shape[:-2])[..., None, None]
    below = np.take_along_axis(density, at, axis=-2) @ _share_below(-margin, density.dtype)  # (..., 1, G)
    return np.asarray((density @ below.swapaxes(-1, -2))[..., 0])


@lru_cache(maxsize=32)
def _share_below(shift: float, dtype: np.dtype[np.floating[Any]]) -> np.ndarray:
    """(G, G): a density times this is the probability of lying below each rate of the grid plus `shift`."""
    return _cells_below(RATES + shift).astype(dtype)


def _cells_below(rates: np.ndarray) -> np.ndarray:
    """How much of each cell of the grid lies below each of some rates, (G, M)."""
    return np.asarray(np.clip((rates - EDGES[:-1, None]) / np.diff(EDGES)[:, None], 0.0, 1.0))


def weigh_points(points: Points, prior: Prior, z: np.ndarray, chance: np.ndarray, say: np.ndarray) -> np.ndarray:
    """Posterior weight of each point, (H,), for one field: chance is `marginal`'s (K, S, G), say is (K,).

    `say` below one is how much less a candidate counts that has siblings: they err together.
    """
    log_weight = prior.log_density(points.intercept, points.slope, points.shape) + points.log_area
    low, share = line_position(points.intercept[:, None], points.slope[:, None], z)
    index = np.arange(z.size)
    shape = points.shape[:, None]
    found = chance[index, shape, low] * (1.0 - share) + chance[index, shape, low + 1] * share  # (H, K)
    log_weight = log_weight + np.log(np.maximum(found, 1e-300)) @ say
    return np.asarray(np.exp(log_weight - logsumexp(log_weight)))
