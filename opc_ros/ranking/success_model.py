"""The hierarchical model behind predicted success, by quadrature.

The logit of a candidate's success rate is a line in its score plus scatter; or the candidate is a dud, which rates
recorded episodes well and then acts badly, so that its score says nothing. Success rates live on a grid of G logits. A
point of the quadrature is one line (intercept, slope) with one shape: a scatter and a share of duds. Given a point,
candidates are independent, so every quantity is a sum over points. Arrays end in (K,) candidates or (K, G); leading
axes are independent fields.
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
EDGES = expit(np.append(LOGITS - STEP / 2, LOGITS[-1] + STEP / 2))  # (G + 1,) of the cell around each rate
SCATTERS = (0.08, 0.18, 0.35, 0.6, 0.95, 1.4, 2.1)  # of logits about the line
SCATTER_WEIGHTS = (0.06, 0.1, 0.18, 0.24, 0.22, 0.14, 0.06)
DUDS = (0.0, 0.06, 0.16, 0.32)  # share of candidates
DUD_WEIGHTS = (0.35, 0.3, 0.25, 0.1)
DUD_RATES = (0.25, 2.0)  # Beta distribution of a dud's success
STRAYS = 0.03  # share of candidates whose success rate may be anything, whatever their score says
TAIL = 4.0  # degrees of freedom of the scatter: now and then a candidate is far better or worse than its score says
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Shape:
    """How candidates are distributed around the line."""

    scatter: float
    duds: float
    weight: float  # prior probability


SHAPES = tuple(
    Shape(scatter, duds, weight * dud_weight)
    for scatter, weight in zip(SCATTERS, SCATTER_WEIGHTS, strict=True)
    for duds, dud_weight in zip(DUDS, DUD_WEIGHTS, strict=True)
)


def _make_spreads() -> np.ndarray:
    """(scatters, G, G): distribution of success for each value of the line; rows sum to one."""
    distance = (LOGITS[None, None, :] - LOGITS[None, :, None]) / np.array(SCATTERS)[:, None, None]
    density = (1.0 + distance**2 / TAIL) ** (-(TAIL + 1.0) / 2.0)
    return np.asarray(density / density.sum(axis=-1, keepdims=True))


def _make_bases() -> np.ndarray:
    """(duds, G): distribution of success of those that do not follow the line, times their share."""
    first, second = DUD_RATES
    cells = np.diff(EDGES) / (EDGES[-1] - EDGES[0])
    dud = np.exp(first * log_expit(LOGITS) + second * log_expit(-LOGITS))
    return np.array([duds * dud / dud.sum() + STRAYS * cells for duds in DUDS])


# Given a value of the line and a shape, success is distributed as FOLLOWS[duds] * SPREADS[scatter, line] + BASES[duds].
# They are kept separate because a table of all 28 shapes would be four times as large and as slow.
SPREADS = _make_spreads()
BASES = _make_bases()
FOLLOWS = 1.0 - STRAYS - np.array(DUDS)  # share of candidates that follow the line


@dataclass(frozen=True, slots=True)
class Prior:
    """The prior of line and scatter, before anything has run."""

    intercept: float = 0.0  # logit of success at the mean score
    intercept_sd: float = 1.5
    slope: float = 0.7  # logits gained by one standard deviation of score
    slope_sd: float = 0.8

    def log_density(self, intercept: np.ndarray, slope: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Log density up to a constant; `shape` are indices into SHAPES."""
        weights = np.log([each.weight for each in SHAPES])
        a = (intercept - self.intercept) / self.intercept_sd
        b = (slope - self.slope) / self.slope_sd
        return np.asarray(weights[shape] - 0.5 * a**2 - 0.5 * b**2)


@dataclass(frozen=True, slots=True)
class Points:
    """Points of the quadrature, and the log of the area that each represents."""

    intercept: np.ndarray  # (H,)
    slope: np.ndarray  # (H,)
    shape: np.ndarray  # (H,) index into SHAPES
    log_area: np.ndarray  # (H,)


def spread_points(intercepts: np.ndarray, slopes: np.ndarray) -> Points:
    """A regular grid over line and shape."""
    a, b, s = np.meshgrid(intercepts, slopes, np.arange(len(SHAPES)), indexing="ij")
    return Points(a.ravel(), b.ravel(), s.ravel(), np.zeros(a.size))


def correlation_of(slope: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """Correlation of score and logit of success, given the line; scores have a standard deviation of one."""
    return np.asarray(slope / np.hypot(slope, scatter))


def log_likelihood(successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Log likelihood of each rate on the grid, (..., G), up to a constant for each candidate."""
    s, n = np.asarray(successes, dtype=np.float64)[..., None], np.asarray(trials, dtype=np.float64)[..., None]
    found = s * log_expit(LOGITS) + (n - s) * log_expit(-LOGITS)
    return np.asarray(found - found.max(axis=-1, keepdims=True))


def line_position(intercept: np.ndarray, slope: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line's value for each candidate, as a grid index rounded down and the fraction of the way to the next."""
    at = np.clip((intercept + slope * z - LOGITS[0]) / STEP, 0.0, LOGITS.size - 1.001)
    low = at.astype(np.int32)
    return low, (at - low).astype(np.float32)


def marginal(likelihood: np.ndarray) -> np.ndarray:
    """Likelihood of the results given a value of the line and a shape, (..., S, G), from likelihoods (..., G)."""
    about = np.stack([likelihood @ spread.T for spread in SPREADS], axis=-2)[..., :, None, :]
    found = FOLLOWS[:, None] * about + (likelihood @ BASES.T)[..., None, :, None]
    return np.asarray(found.reshape(*likelihood.shape[:-1], len(SHAPES), LOGITS.size))


def conditional(likelihood: np.ndarray, shape: np.ndarray, low: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Density of success rates at points of the quadrature, (..., K, G), in the precision of the likelihood.

    Args:
        likelihood: (..., K, G).
        shape: (..., 1) index into SHAPES.
        low: (..., K), and share: as returned by `line_position`.
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
    """Probability of being at most `tolerance` below the best, (..., K), for independent densities (..., K, G)."""
    # As a single matrix product: numpy would multiply the (K, G) of each point separately.
    below = density.reshape(-1, RATES.size) @ _share_below(tolerance, density.dtype)
    log_below = np.log(np.maximum(below, _LEAST, out=below), out=below).reshape(density.shape)
    others_below = np.exp(log_below.sum(axis=-2, keepdims=True) - log_below)
    return np.asarray(np.einsum("...g,...g->...", density, others_below))


def chance_above(density: np.ndarray, floor: float) -> np.ndarray:
    """Probability of a success rate of at least `floor`, (..., K)."""
    return np.asarray(1.0 - density @ _cells_below(np.array([floor]))[:, 0].astype(density.dtype))


def chance_better(density: np.ndarray, other: int | np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Probability of being better than another by at least a margin, (..., K); one half for itself without margin.

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
    """The fraction of each cell of the grid that lies below each of some rates, (G, M)."""
    return np.asarray(np.clip((rates - EDGES[:-1, None]) / np.diff(EDGES)[:, None], 0.0, 1.0))


def weigh_points(points: Points, prior: Prior, z: np.ndarray, chance: np.ndarray, say: np.ndarray) -> np.ndarray:
    """Posterior weight of each point, (H,), for one field; `chance` is `marginal`'s (K, S, G), `say` is (K,).

    `say` is below one for candidates with siblings, which count less because their errors are correlated.
    """
    log_weight = prior.log_density(points.intercept, points.slope, points.shape) + points.log_area
    low, share = line_position(points.intercept[:, None], points.slope[:, None], z)
    index = np.arange(z.size)
    shape = points.shape[:, None]
    found = chance[index, shape, low] * (1.0 - share) + chance[index, shape, low + 1] * share  # (H, K)
    log_weight = log_weight + np.log(np.maximum(found, 1e-300)) @ say
    return np.asarray(np.exp(log_weight - logsumexp(log_weight)))
