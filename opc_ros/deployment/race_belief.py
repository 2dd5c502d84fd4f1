"""The model of predicted success for many simulated races at once, updated batch by batch."""

from __future__ import annotations

import numpy as np

from opc_ros.ranking.success_model import (
    BASES,
    FOLLOWS,
    LOGITS,
    SCATTERS,
    SHAPES,
    SPREADS,
    Prior,
    conditional,
    correlation_of,
    line_position,
    log_likelihood,
)

_SIDE = 7  # lines along each axis of a race's grid
_REACH = 3.0  # standard deviations covered on either side
_OFFSETS = np.stack(np.meshgrid(*[np.linspace(-_REACH, _REACH, _SIDE)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
_GAP = 2.0 * _REACH / (_SIDE - 1)  # between neighbouring lines, in standard deviations


class RaceBelief:
    """R races of K candidates; the model of `predict_success`, on a grid of lines that follows the posterior."""

    def __init__(self, scores: np.ndarray, prior: Prior | None = None) -> None:
        self._prior = prior or Prior()
        races, rivals = scores.shape
        spread = scores.std(axis=1, keepdims=True)
        self._z = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0.0, spread, 1.0)
        # Likelihood of each candidate's results so far: if it follows the line, at each value of the line and scatter;
        # if it does not, for each share of duds.
        self._following = np.ones((races, rivals, LOGITS.size, len(SCATTERS)), dtype=np.float32)
        self._apart = np.ones((races, rivals, len(BASES)), dtype=np.float32) * BASES.sum(axis=1, dtype=np.float32)
        self._likelihood = np.ones((races, rivals, LOGITS.size), dtype=np.float32)
        self._spreads = np.ascontiguousarray(SPREADS.transpose(2, 1, 0).reshape(LOGITS.size, -1), dtype=np.float32)
        self._bases = BASES.T.astype(np.float32)
        self._follows = FOLLOWS.astype(np.float32)
        self._batches, self._due = np.zeros(races, dtype=int), np.ones(races, dtype=int)
        lines = len(_OFFSETS)
        self._lines, self._gap = np.zeros((races, lines, 2)), np.zeros((races, 2))
        self._low = np.zeros((races, lines, rivals), dtype=np.int32)
        self._share = np.zeros((races, lines, rivals), dtype=np.float32)
        self._log_weight = np.zeros((races, lines, len(SHAPES)), dtype=np.float32)
        middle = np.array([self._prior.intercept, self._prior.slope])
        self._lay(
            np.arange(races), middle, np.diag([self._prior.intercept_sd, self._prior.slope_sd])[None].repeat(races, 0)
        )

    def learn(self, races: np.ndarray, picked: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> None:
        """Update each of some races with all results so far of one candidate."""
        likelihood = np.exp(log_likelihood(successes, trials)).astype(np.float32)
        self._likelihood[races, picked] = likelihood
        before = self._at_lines(races, picked)
        found = likelihood @ self._spreads
        self._following[races, picked] = found.reshape(len(races), LOGITS.size, len(SCATTERS))
        self._apart[races, picked] = likelihood @ self._bases
        self._log_weight[races] += self._at_lines(races, picked) - before
        self._batches[races] += 1
        self._follow(races[self._batches[races] >= self._due[races]])

    def densities(
        self, races: np.ndarray, points: int, rng: np.random.Generator, *, is_even: bool = False
    ) -> np.ndarray:
        """Success of every candidate at points drawn by weight, (r, points, K, G).

        Points are drawn independently, or evenly spaced over the total weight, which gives more accurate averages.
        """
        cumulated = np.cumsum(self._weights(races).reshape(len(races), -1), axis=1)
        if is_even:
            level = (np.arange(points) + rng.random((len(races), 1))) / points * cumulated[:, -1:]
        else:
            level = rng.random((len(races), points)) * cumulated[:, -1:]
        point = np.stack([np.searchsorted(row, at) for row, at in zip(cumulated, level, strict=True)])
        line, shape = np.divmod(point.clip(max=cumulated.shape[1] - 1), len(SHAPES))
        rows = races[:, None]
        return conditional(
            self._likelihood[races][:, None], shape[..., None], self._low[rows, line], self._share[rows, line]
        )

    def correlation(self, races: np.ndarray) -> np.ndarray:
        """Expected correlation of score and success, (r,)."""
        weight = self._weights(races)
        slope = self._lines[races, :, 1, None]
        scatter = np.array([shape.scatter for shape in SHAPES])
        found = weight * correlation_of(slope, scatter)
        return np.asarray(found.sum(axis=(1, 2)) / weight.sum(axis=(1, 2)))

    def _weights(self, races: np.ndarray) -> np.ndarray:
        """Weights of lines and shapes, (r, lines, shapes), up to a factor for each race."""
        log_weight = self._log_weight[races].astype(np.float64)
        return np.asarray(np.exp(log_weight - log_weight.max(axis=(1, 2), keepdims=True)))

    def _follow(self, races: np.ndarray) -> None:
        """Move the grid of lines to the posterior; less often as results accumulate, because it moves less then."""
        if not races.size:
            return
        weight = self._weights(races).sum(axis=2)
        weight /= weight.sum(axis=1, keepdims=True)
        mean = np.einsum("rl,rlc->rc", weight, self._lines[races])
        about = self._lines[races] - mean[:, None]
        covariance = np.einsum("rl,rlc,rld->rcd", weight, about, about)
        # A posterior narrower than the gap between lines looks like a single line: never use a width below the gap.
        covariance[:, [0, 1], [0, 1]] += (self._gap[races] / 2.0) ** 2
        self._lay(races, mean[:, None], np.linalg.cholesky(covariance))
        self._due[races] = self._batches[races] + np.maximum(1, self._batches[races] // 8)

    def _lay(self, races: np.ndarray, middle: np.ndarray, root: np.ndarray) -> None:
        self._lines[races] = middle + np.einsum("lc,rdc->rld", _OFFSETS, root)
        self._gap[races] = np.abs(root).sum(axis=2) * _GAP
        intercept, slope = self._lines[races, :, 0], self._lines[races, :, 1]
        self._low[races], self._share[races] = line_position(
            intercept[..., None], slope[..., None], self._z[races][:, None, :]
        )
        every_shape = np.arange(len(SHAPES))
        log_weight = self._prior.log_density(intercept[..., None], slope[..., None], every_shape)
        for rival in range(self._z.shape[1]):
            log_weight = log_weight + self._at_lines(races, np.full(len(races), rival))
        self._log_weight[races] = log_weight

    def _at_lines(self, races: np.ndarray, picked: np.ndarray) -> np.ndarray:
        """Log likelihood of one candidate's results in each race, (r, lines, shapes)."""
        low, share = self._low[races, :, picked], self._share[races, :, picked][..., None]
        rows, columns = races[:, None], picked[:, None]
        found = self._following[rows, columns, low] * (1.0 - share) + self._following[rows, columns, low + 1] * share
        chance = found[..., None] * self._follows + self._apart[races, picked][:, None, None, :]
        return np.asarray(np.log(chance).reshape(len(races), -1, len(SHAPES)))
