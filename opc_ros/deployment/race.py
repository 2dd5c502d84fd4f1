"""Who gets robot time next: the leader, or whoever most threatens its lead, until the lead is sure.

Densities are (..., H, K, G): at H points of the model, K candidates over the grid of success rates; weights are (...,
H). Leading axes are independent races.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.ranking.success_model import RATES, chance_better, chance_within

_TRUSTED = 0.88  # expected correlation of score and success at which scores count as proven


@dataclass(frozen=True, slots=True)
class RaceRules:
    """How a race is run and when it ends."""

    batch_episodes: int = 10  # episodes given to one candidate at a time
    budget_episodes: int = 1071  # episodes for the whole race
    tolerance: float = 0.03  # a winner within this distance of the best is good enough
    confidence: float = 0.95  # probability of such a winner at which the race ends
    trusted_confidence: float = 0.0  # the same, once scores have proved to predict success; 0: use `confidence`
    drop_below: float = 0.0005  # a candidate less likely than this to be that close drops out; small, as a dozen may
    crown_confidence: float = 0.95  # probability of being better than the champion needed to replace it
    explore_every: int = 10  # every n-th batch goes to the candidate with the fewest episodes; 0: never

    def __post_init__(self) -> None:
        if self.batch_episodes < 1 or self.budget_episodes < self.batch_episodes:
            raise ValueError(f"batch_episodes {self.batch_episodes}, budget_episodes {self.budget_episodes}: too few")
        if not 0.0 <= self.tolerance < 1.0 or not 0.0 < self.confidence < 1.0:
            raise ValueError(f"tolerance {self.tolerance}, confidence {self.confidence}: expected between 0 and 1")
        if not 0.0 <= self.trusted_confidence <= self.confidence:
            raise ValueError(
                f"trusted_confidence is {self.trusted_confidence}, expected from 0 to confidence, {self.confidence}"
            )
        if not 0.0 <= self.drop_below < 1.0 - self.confidence:
            raise ValueError(f"drop_below is {self.drop_below}, expected from 0 to below {1.0 - self.confidence:g}")
        if not 0.5 <= self.crown_confidence < 1.0:
            raise ValueError(f"crown_confidence is {self.crown_confidence}, expected from 0.5 to below 1")
        if self.explore_every < 0:
            raise ValueError(f"explore_every is {self.explore_every}, expected 0 or more")

    def confidence_at(self, correlation: np.ndarray | float) -> np.ndarray:
        """How sure the leader must be, (...), for the race to end, given how well scores predict success.

        The model allows for scatter and outliers that good scores do not have, so with good scores its leaders are
        better than it claims.
        """
        return np.where(
            np.asarray(correlation) >= _TRUSTED, self.trusted_confidence or self.confidence, self.confidence
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a race stands."""

    mean: np.ndarray  # (..., K) predicted success
    within: np.ndarray  # (..., K) probability of being within the tolerance of the best
    leader: np.ndarray  # (...) index of the highest mean
    is_in_race: np.ndarray  # (..., K) bool
    lead: np.ndarray  # (...) that probability for the leader
    is_settled: np.ndarray  # (...) bool: the leader is surely good enough


def judge_race(
    weight: np.ndarray, density: np.ndarray, rules: RaceRules, correlation: np.ndarray | float = 0.0
) -> Standing:
    """What the model says about the race; the leader always stays in it.

    `correlation`, (...), is that of scores and success, as far as results show it.
    """
    mean = np.einsum("...h,...hk->...k", weight, density @ RATES.astype(density.dtype))
    within = np.einsum("...h,...hk->...k", weight, chance_within(density, rules.tolerance))
    leader = mean.argmax(axis=-1)
    is_in_race = within >= rules.drop_below
    np.put_along_axis(is_in_race, leader[..., None], True, axis=-1)
    lead = _of(within, leader)
    return Standing(mean, within, leader, is_in_race, lead, lead >= rules.confidence_at(correlation))


@dataclass(frozen=True, slots=True)
class Duel:
    """The leader, and the candidate most likely to be better than it by more than the tolerance."""

    leader: np.ndarray  # (...) index of the highest mean
    challenger: np.ndarray  # (...) index; the leader's own where it has no rival
    chance: np.ndarray  # (...) that the challenger is better by more than the tolerance
    leader_share: np.ndarray  # (...) of the episodes that go to the two

    def of(self, races: np.ndarray) -> Duel:
        """The duels of some of the races only."""
        return Duel(self.leader[races], self.challenger[races], self.chance[races], self.leader_share[races])


def find_duel(weight: np.ndarray, density: np.ndarray, tolerance: float, is_in_race: np.ndarray | None = None) -> Duel:
    """Find the duel among candidates in the race, (..., K) bool, or among all.

    The leader is within the tolerance with probability at most 1 - chance. Episodes are split in proportion to each
    one's variance, so that the uncertainty about their difference shrinks fastest.
    """
    found = density @ np.stack([RATES, RATES**2], axis=1).astype(density.dtype)  # (..., H, K, 2)
    mean, square = np.moveaxis(np.einsum("...h,...hkm->...km", weight, found), -1, 0)
    is_open = np.ones(mean.shape, dtype=bool) if is_in_race is None else is_in_race
    leader = np.where(is_open, mean, -1.0).argmax(axis=-1)
    better = chance_better(density, np.broadcast_to(leader[..., None], density.shape[:-2]), tolerance)
    threat = np.where(is_open, np.einsum("...h,...hk->...k", weight, better), -1.0)
    np.put_along_axis(threat, leader[..., None], -1.0 if threat.shape[-1] > 1 else 0.0, axis=-1)
    challenger = threat.argmax(axis=-1)
    challenger = np.where(_of(threat, challenger) < 0.0, leader, challenger)
    variance = square - mean**2
    first, second = _of(variance, leader), _of(variance, challenger)
    return Duel(leader, challenger, np.maximum(_of(threat, challenger), 0.0), first / (first + second))


def choose_next(duel: Duel, rng: np.random.Generator) -> np.ndarray:
    """Which of the two runs next, (...)."""
    return np.asarray(np.where(rng.random(duel.leader.shape) < duel.leader_share, duel.leader, duel.challenger))


def _of(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.asarray(np.take_along_axis(values, index[..., None], axis=-1)[..., 0])


def choose_by_results(
    successes: np.ndarray, trials: np.ndarray, rng: np.random.Generator, is_in_race: np.ndarray | None = None
) -> np.ndarray:
    """Top-two Thompson sampling on results alone, (...), from successes and trials (..., K), without scores or model.

    Every candidate's success rate is drawn twice. Half of the time the batch goes to the best of the first draw,
    otherwise to the best of the others in the second draw.
    """
    first, second = (rng.beta(1.0 + successes, 1.0 + trials - successes) for _ in range(2))
    if is_in_race is not None:
        first, second = np.where(is_in_race, first, -1.0), np.where(is_in_race, second, -1.0)
    return _choose_of_two(first, second, rng)


def goes_by_results(batches_given: int) -> bool:
    """Whether the next batch ignores the model: every other one does, in case the model is wrong about a candidate."""
    return batches_given % 2 == 1


def _choose_of_two(first_draw: np.ndarray, second_draw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    first = first_draw.argmax(axis=-1)
    others = second_draw.copy()
    np.put_along_axis(others, first[..., None], -1.0, axis=-1)
    second = others.argmax(axis=-1)
    second = np.where(_of(others, second) < 0.0, first, second)
    return np.asarray(np.where(rng.random(first.shape) < 0.5, first, second))


def is_exploration_turn(batches_given: int, rules: RaceRules) -> bool:
    """Whether the next batch goes to the candidate with the fewest episodes, so that data also shows losers."""
    return rules.explore_every > 0 and batches_given % rules.explore_every == rules.explore_every - 1


def least_run(scores: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Index of the candidate with the fewest episodes; on a tie, the one with the better score."""
    order = np.broadcast_to(np.argsort(-scores, axis=-1, kind="stable"), trials.shape)
    first = np.take_along_axis(trials, order, axis=-1).argmin(axis=-1)
    return np.asarray(np.take_along_axis(order, first[..., None], axis=-1)[..., 0])
