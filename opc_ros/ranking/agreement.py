"""How well scores agree with true success where that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from opc_ros.errors import ConstantScores, LengthMismatch, ScoreError


@dataclass(frozen=True, slots=True)
class FittedLine:
    """The least-squares line from score to true success, and what its confidence band needs."""

    slope: float
    intercept: float
    r_squared: float
    points: int
    mean_score: float
    spread: float  # sum of squared distances of scores from their mean
    residual: float  # standard deviation around the line, points - 2 degrees of freedom

    def predict(self, scores: ArrayLike) -> np.ndarray:
        """True success predicted by the line."""
        return self.intercept + self.slope * np.asarray(scores, dtype=np.float64)

    def band(self, scores: ArrayLike, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edge of the confidence band of the line itself."""
        if not 0.0 < confidence < 1.0:
            raise ScoreError(f"confidence is {confidence}, expected between 0 and 1, such as 0.95")
        at = np.asarray(scores, dtype=np.float64)
        error = self.residual * np.sqrt(1 / self.points + (at - self.mean_score) ** 2 / self.spread)
        half = float(stdtrit(self.points - 2, (1 + confidence) / 2)) * error
        return self.predict(at) - half, self.predict(at) + half


@dataclass(frozen=True, slots=True)
class SafetyErrors:
    """How often a threshold on true success is misjudged by the fitted line."""

    threshold: float
    safe_refused: float | None  # Type I: share of the truly safe that the score would refuse; None if none is safe
    unsafe_admitted: float | None  # Type II: share of the truly unsafe that it would admit; None if all are safe


@dataclass(frozen=True, slots=True)
class Agreement:
    """All figures of one comparison between scores and true success."""

    line: FittedLine
    spearman: float
    kendall: float
    regret: tuple[tuple[int, float], ...]  # (k, regret@k)
    mmrv: float
    safety: SafetyErrors | None


def measure_agreement(
    scores: ArrayLike, success: ArrayLike, *, top_k: tuple[int, ...] = (1, 3), safe_success: float | None = None
) -> Agreement:
    """Compare scores with true success, both (C,), higher meaning better in both.

    Args:
        scores: one for each candidate.
        success: true success of each candidate, on any common scale.
        top_k: values of k for regret@k; those above the number of candidates are left out.
        safe_success: the lowest success that counts as safe.
    """
    found, true = _check(scores, success)
    line = fit_line(found, true)
    return Agreement(
        line=line,
        spearman=spearman(found, true),
        kendall=kendall(found, true),
        regret=tuple((k, regret_at_k(found, true, k)) for k in top_k if k <= found.size),
        mmrv=mean_maximum_rank_violation(found, true),
        safety=None if safe_success is None else safety_errors(line.predict(found), true, safe_success),
    )


def fit_line(scores: ArrayLike, success: ArrayLike) -> FittedLine:
    """Least squares of true success on scores; R^2 is the squared correlation, the same with axes swapped."""
    found, true = _check(scores, success)
    _check_varies(found, true)
    if found.size < 3:
        raise ScoreError(f"{found.size} candidates, expected at least 3 to fit a line and judge it")
    x, y = found - found.mean(), true - true.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    residual = y - slope * x
    return FittedLine(
        slope=slope,
        intercept=float(true.mean() - slope * found.mean()),
        r_squared=min(1.0, float((x @ y) ** 2 / (spread * float(y @ y)))),
        points=found.size,
        mean_score=float(found.mean()),
        spread=spread,
        residual=float(np.sqrt(residual @ residual / (found.size - 2))),
    )


def spearman(scores: ArrayLike, success: ArrayLike) -> float:
    """Rank correlation: 1 for the same order, -1 for the opposite; ties get their mean rank."""
    found, true = _check(scores, success)
    _check_varies(found, true)
    x, y = _mean_ranks(found), _mean_ranks(true)
    x -= x.mean()
    y -= y.mean()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def kendall(scores: ArrayLike, success: ArrayLike) -> float:
    """Kendall's tau-b: pairs in the same order minus pairs in opposite order, corrected for ties."""
    from scipy.stats import kendalltau

    found, true = _check(scores, success)
    _check_varies(found, true)
    return float(kendalltau(found, true).statistic)


def regret_at_k(scores: ArrayLike, success: ArrayLike, k: int) -> float:
    """Success lost by running only the k best-scored: best of all minus best of those (DOPE).

    A tie for the last place goes to the worse candidate, so that a score gets no credit for luck.
    """
    found, true = _check(scores, success)
    if not 1 <= k <= found.size:
        raise ScoreError(f"k is {k}, expected 1 to {found.size}, the number of candidates")
    chosen = np.lexsort((true, -found))[:k]
    return float(true.max() - true[chosen].max())


def mean_maximum_rank_violation(scores: ArrayLike, success: ArrayLike) -> float:
    """Mean over candidates of the largest success gap to a candidate they are misordered with (SIMPLER's MMRV)."""
    found, true = _check(scores, success)
    is_misordered = (found[:, None] < found) != (true[:, None] < true)
    return float(np.mean(np.max(np.abs(true[:, None] - true) * is_misordered, axis=1)))


def safety_errors(predicted: ArrayLike, success: ArrayLike, threshold: float) -> SafetyErrors:
    """Judge each candidate safe or not, by predicted and by true success, against one threshold.

    The null hypothesis is that a candidate is safe: refusing a safe one is a Type I error, admitting an unsafe one a
    Type II error.
    """
    judged, true = _check(predicted, success)
    is_safe = true >= threshold
    is_admitted = judged >= threshold
    return SafetyErrors(
        threshold=float(threshold),
        safe_refused=float(np.mean(~is_admitted[is_safe])) if is_safe.any() else None,
        unsafe_admitted=float(np.mean(is_admitted[~is_safe])) if not is_safe.all() else None,
    )


def _check(scores: ArrayLike, success: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    found, true = np.asarray(scores, dtype=np.float64), np.asarray(success, dtype=np.float64)
    if found.ndim != 1 or found.shape != true.shape or found.size < 2:
        raise LengthMismatch(
            f"scores have shape {found.shape}, true success {true.shape}, expected one of each for 2 or more candidates"
        )
    for name, values in (("score", found), ("true success", true)):
        if not np.isfinite(values).all():
            index = int(np.argmin(np.isfinite(values)))
            raise ScoreError(f"{name} of candidate {index} is {values[index]}, expected a finite number")
    return found, true


def _check_varies(scores: np.ndarray, success: np.ndarray) -> None:
    for name, values in (("scores", scores), ("true success values", success)):
        if np.ptp(values) == 0:
            raise ConstantScores(f"all {values.size} {name} are {values[0]:g}, expected at least two that differ")


def _mean_ranks(values: np.ndarray) -> np.ndarray:
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return ((2 * last - sizes + 1) / 2)[group]
