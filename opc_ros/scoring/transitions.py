"""The arrays every score takes, checked once: values per transition, episode lengths, and success per episode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import (
    EmptyValidationSet,
    LengthMismatch,
    NonFiniteQ,
    NoPositiveEpisodes,
    OnlyPositiveEpisodes,
    PriorOutOfRange,
    ScoreError,
)


@dataclass(frozen=True, slots=True)
class Episodes:
    """E episodes, concatenated in arrays of N transitions."""

    lengths: np.ndarray  # (E,) int64, each at least 1
    starts: np.ndarray  # (E,) int64, index of each episode's first transition

    @property
    def transitions(self) -> int:
        """N, the number of transitions of all episodes."""
        return int(self.starts[-1] + self.lengths[-1])

    @property
    def ends(self) -> np.ndarray:
        """Index of each episode's last transition, (E,)."""
        return np.asarray(self.starts + self.lengths - 1)

    def sum_each(self, values: np.ndarray) -> np.ndarray:
        """Sum of a per-transition array (N,) over each episode, (E,) in double precision."""
        return np.add.reduceat(values, self.starts, dtype=np.float64)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A per-episode array (E,) repeated for each transition, (N,)."""
        return np.repeat(values, self.lengths)


def check_lengths(lengths: ArrayLike) -> Episodes:
    """Episodes of these lengths, or an error that names the first wrong one."""
    found = np.asarray(lengths)
    if found.ndim != 1:
        raise LengthMismatch(f"lengths have shape {found.shape}, expected one number for each episode")
    if found.size == 0:
        raise EmptyValidationSet("the validation set has no episode, expected at least one success and one failure")
    if not np.issubdtype(found.dtype, np.integer):
        raise LengthMismatch(f"lengths are {found.dtype}, expected whole numbers")
    whole = found.astype(np.int64)
    if whole.min() < 1:
        index = int(np.argmax(whole < 1))
        raise LengthMismatch(f"episode {index} has length {whole[index]}, expected at least 1 transition")
    return Episodes(whole, np.cumsum(whole) - whole)


def check_values(values: ArrayLike, episodes: Episodes, name: str) -> np.ndarray:
    """One floating-point number for each transition; single and double precision are kept."""
    found = np.asarray(values)
    if found.shape != (episodes.transitions,):
        raise LengthMismatch(
            f"{name} has shape {found.shape}, expected ({episodes.transitions},): "
            f"the lengths of {episodes.lengths.size} episodes add up to {episodes.transitions}"
        )
    return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)


def check_finite(values: np.ndarray, episodes: Episodes, name: str) -> None:
    """Name the first transition whose value is NaN or infinite; values are (N,) or (N, C)."""
    if not np.isfinite(values).all():
        values = values.reshape(episodes.transitions, -1).sum(axis=1)
        bad = ~np.isfinite(values)
        index = int(np.argmax(bad))
        episode = int(np.searchsorted(episodes.starts, index, side="right")) - 1
        step = index - int(episodes.starts[episode])
        raise NonFiniteQ(
            f"{name} of episode {episode}, step {step} is {values[index]}, expected a finite number: "
            "leave this candidate out or repair it"
        )


def check_outcomes(success: ArrayLike, episodes: Episodes) -> np.ndarray:
    """One truth value for each episode."""
    found = np.asarray(success)
    if found.shape != episodes.lengths.shape:
        raise LengthMismatch(f"success has shape {found.shape}, expected ({episodes.lengths.size},): one per episode")
    if found.dtype != np.bool_:
        is_truth = np.isin(found, (0, 1))
        if not is_truth.all():
            raise ScoreError(f"success holds {found[~is_truth][0]}, expected true or false")
        found = found.astype(np.bool_)
    return found


def check_success(success: ArrayLike, episodes: Episodes) -> np.ndarray:
    """One truth value for each episode, with at least one success and one failure among them."""
    found = check_outcomes(success, episodes)
    if not found.any():
        raise NoPositiveEpisodes(
            f"none of {found.size} episodes is a success, expected at least one: record more or check the labels"
        )
    if found.all():
        raise OnlyPositiveEpisodes(
            f"all {found.size} episodes are successes, expected at least one failure: "
            "without one every candidate scores the same"
        )
    return found


def check_prior(prior: float) -> float:
    """A probability, as float."""
    if not 0.0 <= prior <= 1.0:
        raise PriorOutOfRange(f"prior is {prior}, expected a probability from 0 to 1 (the default is 1)")
    return float(prior)


def check_both_outcomes(positive_total: np.ndarray, total: np.ndarray) -> None:
    """Refuse weights, (R,) summed over successes and over all, that exclude one outcome."""
    for name, has_it in (("success", positive_total > 0), ("failure", total > positive_total)):
        if not has_it.all():
            raise ScoreError(f"row {int(np.argmin(has_it))} of weights leaves no {name}, expected one of each outcome")
