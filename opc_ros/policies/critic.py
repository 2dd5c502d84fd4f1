"""A critic: a regression of discounted success on state, action and what the camera shows where the action leads.

There is one for all candidates, and it is cross-fitted: each episode is rated by a fit that has not seen it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.camera import CameraSpec
from opc_ros.policies.landing_view import LandingView

VERSION = "1"  # increase it with any change below that changes the numbers
IMAGE_SIDE = 48  # pixels of the images it gets
FOLDS = 5
DISCOUNT = 0.9  # for each step until the end
_LANDMARKS = 500
_PENALTY = 0.3
_REACH = 1.0  # of the kernel, in median distances
_FLAG_WEIGHT = 2.0  # gripper and terminate flags matter more than their share of the variance


def fit_critic(
    images: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    lengths: np.ndarray,
    success: np.ndarray,
    keys: Sequence[str],
    camera: CameraSpec | None,
) -> Critic:
    """For each fold, fit one regression on the episodes of all other folds.

    Args:
        images: what the camera showed, (N, side, side, 3) uint8, one episode after another.
        states: what else was known, (N, S).
        actions: what was done, (N, A).
        lengths: steps of each episode, (E,).
        success: whether each succeeded, (E,).
        keys: names of the episodes' bytes, (E,); they decide the folds, which therefore stay as the store grows.
        camera: lets it look where an action leads; without one, it looks at the whole image.
    """
    ends = np.repeat(np.cumsum(lengths), lengths)
    steps_to_end = ends - 1 - np.arange(ends.size)
    target = np.repeat(success, lengths) * DISCOUNT**steps_to_end
    fold = np.repeat([_fold_of(key) for key in keys], lengths)
    view = LandingView(images, states, camera)
    view.learn(actions)
    described = _describe(states, actions, view)
    scale = _Scale.of(described)
    shown = scale.apply(described)
    fits = []
    for index in range(FOLDS):
        others = fold != index
        if not others.any() or not np.ptp(target[others]):
            others = np.ones(fold.size, dtype=np.bool_)  # too few episodes to leave any out
        fits.append(_Fit.of(shown[others], target[others], seed=index))
    return Critic(states, view, scale, tuple(fits), fold, shown)


def _fold_of(key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"opc critic fold\n{key}".encode()).digest()[:4], "big") % FOLDS


class Critic:
    """Rates actions in the recorded states."""

    def __init__(
        self,
        states: np.ndarray,
        view: LandingView,
        scale: _Scale,
        fits: Sequence[_Fit],
        fold: np.ndarray,
        recorded: np.ndarray,
    ) -> None:
        self._states = states
        self._view = view
        self._scale = scale
        self._fits = fits
        self._fold = fold
        self._recorded = self._value(recorded)

    def rate(self, actions: np.ndarray) -> np.ndarray:
        """By how much it values actions (N, A) above the recorded ones, (N,) float32."""
        value = self._value(self._scale.apply(_describe(self._states, actions, self._view)))
        return np.asarray(value - self._recorded, dtype=np.float32)

    @property
    def recorded_value(self) -> np.ndarray:
        """Its value of the recorded actions, (N,): an estimate of the discounted success that followed."""
        return self._recorded

    def _value(self, shown: np.ndarray) -> np.ndarray:
        value = np.empty(len(shown))
        for index, fit in enumerate(self._fits):
            rows = self._fold == index
            value[rows] = fit.predict(shown[rows])
        return value


def _describe(states: np.ndarray, actions: np.ndarray, view: LandingView) -> np.ndarray:
    """The features of states and actions, (N, F)."""
    return np.column_stack([states, actions, view.see(actions)]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Scales every feature to order one, and drops those that never vary."""

    centre: np.ndarray  # (F,)
    factor: np.ndarray  # (F,)

    @classmethod
    def of(cls, described: np.ndarray) -> _Scale:
        spread = described.std(axis=0)
        is_flag = np.isin(described, (0.0, 1.0)).all(axis=0)
        weight = np.where(is_flag, _FLAG_WEIGHT, 1.0)
        return cls(described.mean(axis=0), np.divide(weight, spread, out=np.zeros_like(spread), where=spread > 1e-9))

    def apply(self, described: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip((described - self.centre) * self.factor, -6.0, 6.0))


@dataclass(frozen=True, slots=True)
class _Fit:
    """Kernel ridge regression with some of the rows as landmarks."""

    landmarks: np.ndarray  # (L, F)
    weights: np.ndarray  # (L,)
    offset: float
    width: float

    @classmethod
    def of(cls, shown: np.ndarray, target: np.ndarray, *, seed: int) -> _Fit:
        chosen = np.random.default_rng(seed).permutation(len(shown))[:_LANDMARKS]
        landmarks = shown[np.sort(chosen)]
        between = _squared_distances(landmarks, landmarks)
        width = _REACH * float(np.median(between[between > 0])) if (between > 0).any() else 1.0
        offset = float(target.mean())
        kernel = np.exp(-_squared_distances(shown, landmarks) / width)
        own = np.exp(-between / width)
        left = kernel.T @ kernel + _PENALTY * own + 1e-6 * np.eye(len(landmarks))
        return cls(landmarks, np.linalg.solve(left, kernel.T @ (target - offset)), offset, width)

    def predict(self, shown: np.ndarray) -> np.ndarray:
        kernel = np.exp(-_squared_distances(shown, self.landmarks) / self.width)
        return np.asarray(self.offset + kernel @ self.weights)


def _squared_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None] - 2.0 * one @ other.T
    return np.asarray(np.maximum(squares, 0.0))
