"""The model of predicted success for many simulated races at once, kept up to date batch by batch."""

from __future__ import annotations

import numpy as np

from opc_ros.ranking.success_model import (
    DUDS,
    KERNELS,
    LOGITS,
    SHAPES,
    Prior,
    conditional,
    line_position,
    log_likelihood,
)

_USED = [index for index, shape in enumerate(SHAPES) if shape.scatter > 0.1 and shape.duds in (DUDS[0], DUDS[2])]


class RaceBelief:
    """R races of K candidates; the same model as `predict_success`, on a fixed grid of lines and fewer shapes."""

    def __init__(self, scores: np.ndarray, prior: Prior | None = None) -> None:
        prior = prior or Prior()
        self._races, rivals = scores.shape
        spread = scores.std(axis=1, keepdims=True)
        z = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0.0, spread, 1.0)
        reach = np.linspace(-2.6, 2.6, 15)
        intercepts = prior.intercept + prior.intercept_sd * reach
        slopes = prior.slope + prior.slope_sd * np.linspace(-2.4, 2.4, 9)
        lines = np.stack(np.meshgrid(intercepts, slopes, indexing="ij"), axis=-1).reshape(-1, 2)
        self._low, self._share = line_position(lines[None, :, None, 0], lines[None, :, None, 1], z[:, None, :])
        weights = np.array([SHAPES[shape].weight for shape in _USED])
        at_prior = -0.5 * ((lines - [prior.intercept, prior.slope]) / [prior.intercept_sd, prior.slope_sd]) ** 2
        log_weight = at_prior.sum(axis=1)[:, None] + np.log(weights)
        self._log_weight = np.repeat(log_weight[None], self._races, axis=0)  # (R, lines, shapes)
        self._chance = np.zeros((self._races, rivals, *log_weight.shape))  # log, of each candidate's results so far
        self._likelihood = np.ones((self._races, rivals, LOGITS.size), dtype=np.float32)
        self._kernels = np.stack([KERNELS[shape].T for shape in _USED])  # (shapes, G, G)

    def learn(self, races: np.ndarray, picked: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> None:
        """Take the results that one candidate of each of some races has now, all its episodes together."""
        likelihood = np.exp(log_likelihood(successes, trials))
        self._likelihood[races, picked] = likelihood
        by_line = np.stack([likelihood @ kernel for kernel in self._kernels], axis=-1)  # (r, G, shapes)
        low, share = self._low[races, :, picked], self._share[races, :, picked][..., None]  # (r, lines)
        row = np.arange(len(races))[:, None]
        chance = np.log(np.maximum(by_line[row, low] * (1 - share) + by_line[row, low + 1] * share, 1e-300))
        self._log_weight[races] += chance - self._chance[races, picked]
        self._chance[races, picked] = chance

    def densities(self, races: np.ndarray, points: int, rng: np.random.Generator) -> np.ndarray:
        """Success of everyone at points drawn by their weight, (r, points, K, G)."""
        log_weight = self._log_weight[races].reshape(len(races), -1)
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        cumulated = np.cumsum(weight, axis=1)
        level = rng.random((len(races), points)) * cumulated[:, -1:]
        point = (cumulated[:, None, :] < level[:, :, None]).sum(axis=2).clip(max=cumulated.shape[1] - 1)
        line, shape = np.divmod(point, len(_USED))
        rows = races[:, None]
        return conditional(
            self._likelihood[races][:, None],
            np.array(_USED)[shape][..., None],
            self._low[rows, line],
            self._share[rows, line],
        ).astype(np.float32)
