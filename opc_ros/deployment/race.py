"""Who gets robot time next: top-two Thompson sampling on predicted success, until the leader is surely good enough.

Densities are (..., H, K, G): at H points of the model, K candidates over the grid of success rates; weights are
(..., H). Axes before these are independent races.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.ranking.success_model import EDGES, RATES, chance_within


@dataclass(frozen=True, slots=True)
class RaceRules:
    """How a race is run and when it ends."""

    batch_episodes: int = 10  # given to one candidate at a time
    budget_episodes: int = 1071  # for the whole race
    tolerance: float = 0.03  # a winner this close to the best is good enough
    confidence: float = 0.95  # probability of that at which the race ends
    drop_below: float = 0.005  # a candidate less likely than this to be that close to the best leaves the race
    crown_confidence: float = 0.95  # probability of being better than the champion that replacing it takes
    explore_every: int = 10  # every n-th batch goes to the candidate that has run least; 0: none

    def __post_init__(self) -> None:
        if self.batch_episodes < 1 or self.budget_episodes < self.batch_episodes:
            raise ValueError(f"batch_episodes {self.batch_episodes}, budget_episodes {self.budget_episodes}: too few")
        if not 0.0 <= self.tolerance < 1.0 or not 0.0 < self.confidence < 1.0:
            raise ValueError(f"tolerance {self.tolerance}, confidence {self.confidence}: expected between 0 and 1")
        if not 0.0 <= self.drop_below < 1.0 - self.confidence:
            raise ValueError(f"drop_below is {self.drop_below}, expected from 0 to below {1.0 - self.confidence:g}")
        if not 0.5 <= self.crown_confidence < 1.0:
            raise ValueError(f"crown_confidence is {self.crown_confidence}, expected from 0.5 to below 1")
        if self.explore_every < 0:
            raise ValueError(f"explore_every is {self.explore_every}, expected 0 or more")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a race stands."""

    mean: np.ndarray  # (..., K) predicted success
    within: np.ndarray  # (..., K) probability of being within the tolerance of the best
    leader: np.ndarray  # (...) index of the highest mean
    is_in_race: np.ndarray  # (..., K) bool
    is_settled: np.ndarray  # (...) bool: the leader is surely good enough


def judge_race(weight: np.ndarray, density: np.ndarray, rules: RaceRules) -> Standing:
    """What the model says of the race; the leader never leaves it."""
    mean = np.einsum("...h,...hk->...k", weight, density @ RATES.astype(density.dtype))
    within = np.einsum("...h,...hk->...k", weight, chance_within(density, rules.tolerance))
    leader = mean.argmax(axis=-1)
    is_in_race = within >= rules.drop_below
    np.put_along_axis(is_in_race, leader[..., None], True, axis=-1)
    lead = np.take_along_axis(within, leader[..., None], axis=-1)[..., 0]
    return Standing(mean, within, leader, is_in_race, lead >= rules.confidence)


def choose_next(density: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whom to run next, (...), from two points drawn by weight, (..., 2, K, G).

    Success of everyone is drawn at the first point; whoever comes out best gets the batch half of the time. Otherwise
    success is drawn at the second point, and the best of the others gets it. So the leader is confirmed, and whoever
    might beat it is tried, in proportion to the chance that it does.
    """
    drawn = draw_rates(density, rng)
    return _choose_of_two(drawn[..., 0, :], drawn[..., 1, :], rng)


def choose_by_results(successes: np.ndarray, trials: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same from results alone, (...), of successes and trials (..., K): no score, no line, no other candidate."""
    first, second = (rng.beta(1.0 + successes, 1.0 + trials - successes) for _ in range(2))
    return _choose_of_two(first, second, rng)


def goes_by_results(batches_given: int) -> bool:
    """Every other batch. Were the model wrong about somebody, it would not let results show it."""
    return batches_given % 2 == 1


def _choose_of_two(first_draw: np.ndarray, second_draw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    first = first_draw.argmax(axis=-1)
    others = second_draw.copy()
    np.put_along_axis(others, first[..., None], -1.0, axis=-1)
    second = others.argmax(axis=-1) if others.shape[-1] > 1 else first
    return np.asarray(np.where(rng.random(first.shape) < 0.5, first, second))


def draw_rates(density: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A success rate for everyone, (..., K), each from its own density (..., K, G)."""
    cumulated = np.cumsum(density, axis=-1)
    level = rng.random((*cumulated.shape[:-1], 1)) * cumulated[..., -1:]
    cell = (cumulated < level).sum(axis=-1).clip(max=RATES.size - 1)
    return np.asarray(EDGES[cell] + rng.random(cell.shape) * (EDGES[cell + 1] - EDGES[cell]))


def is_exploration_turn(batches_given: int, rules: RaceRules) -> bool:
    """Whether the next batch goes to whoever has run least, so that validation data does not only show winners."""
    return rules.explore_every > 0 and batches_given % rules.explore_every == rules.explore_every - 1


def least_run(scores: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Index of the candidate with fewest episodes, the better score first."""
    order = np.broadcast_to(np.argsort(-scores, axis=-1, kind="stable"), trials.shape)
    first = np.take_along_axis(trials, order, axis=-1).argmin(axis=-1)
    return np.asarray(np.take_along_axis(order, first[..., None], axis=-1)[..., 0])
