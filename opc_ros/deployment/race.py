"""Who gets robot time next: a race for the best success rate that starts from the offline scores.

Arrays end in one axis of K candidates; axes before it are independent races.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.deployment.confidence import success_interval

PRIOR_SPREAD = 0.1  # of success rates about the line through the scores, until results say otherwise
PRIOR_SLOPE = 0.1  # success gained per standard deviation of score, likewise; both count as one candidate
HALF_SAY = 20  # episodes after which a candidate has half its say in where the line lies
LEAST_SPREAD = 0.02


@dataclass(frozen=True, slots=True)
class RaceRules:
    """How a race is run and when it ends."""

    batch_episodes: int = 10  # given to one candidate at a time
    budget_episodes: int = 1071  # for the whole race
    tolerance: float = 0.03  # a winner this close to the best is good enough
    confidence: float = 0.95  # that no candidate leaves the race wrongly
    explore_every: int = 10  # one batch in so many goes to whoever has run least; 0: none
    score_episodes: float = 50.0  # the most that an offline score may count for

    def __post_init__(self) -> None:
        if self.batch_episodes < 1 or self.budget_episodes < self.batch_episodes:
            raise ValueError(f"batch_episodes {self.batch_episodes}, budget_episodes {self.budget_episodes}: too few")
        if not 0.0 <= self.tolerance < 1.0 or not 0.0 < self.confidence < 1.0:
            raise ValueError(f"tolerance {self.tolerance}, confidence {self.confidence}: expected between 0 and 1")
        if self.explore_every < 0 or self.score_episodes < 0.0:
            raise ValueError(f"explore_every {self.explore_every}, score_episodes {self.score_episodes}: negative")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a race stands."""

    estimate: np.ndarray  # (..., K) success rate expected from results and score together
    low: np.ndarray  # (..., K) anytime-valid bounds from results alone
    high: np.ndarray  # (..., K)
    is_in_race: np.ndarray  # (..., K) bool: results do not yet refute that this is the best
    leader: np.ndarray  # (...) index of the highest estimate
    challenger: np.ndarray  # (...) the one in the race most likely to be better; the leader where nobody is left
    next: np.ndarray  # (...) of those two, the one known less well
    is_settled: np.ndarray  # (...) bool: nobody can be better than the leader by more than the tolerance


def race_interval(successes: np.ndarray, trials: np.ndarray, rivals: int, rules: RaceRules) -> tuple[np.ndarray, ...]:
    """Bounds that hold for all rivals together at the race's confidence."""
    return success_interval(successes, trials, confidence=1.0 - (1.0 - rules.confidence) / max(rivals, 1))


def judge_race(
    scores: np.ndarray,
    successes: np.ndarray,
    trials: np.ndarray,
    rules: RaceRules,
    bounds: tuple[np.ndarray, ...] | None = None,
) -> Standing:
    """Weigh results and offline scores; `bounds` are race_interval's, for callers who keep them up to date."""
    low, high = bounds or race_interval(successes, trials, scores.shape[-1], rules)
    expected, weight = _expect_from_scores(scores, successes, trials, rules)
    total = trials + weight
    estimate = (successes + weight * expected) / total
    variance = estimate * (1.0 - estimate) / (total + 1.0)
    is_in_race = high >= low.max(axis=-1, keepdims=True)
    ahead = np.where(is_in_race, estimate, -1.0)
    leader = ahead.argmax(axis=-1)
    at_leader = leader[..., None]

    def of_leader(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, at_leader, axis=-1)

    # Evidence that the leader beats each other one: the least of it marks the challenger.
    evidence = (of_leader(estimate) - estimate) ** 2 / (variance + of_leader(variance))
    is_rival = is_in_race.copy()
    np.put_along_axis(is_rival, at_leader, False, axis=-1)
    challenger = np.where(is_rival.any(axis=-1), np.where(is_rival, evidence, np.inf).argmin(axis=-1), leader)
    at_challenger = challenger[..., None]
    is_leader_less_known = of_leader(variance) >= np.take_along_axis(variance, at_challenger, axis=-1)
    best_other = np.where(is_rival, high, 0.0).max(axis=-1)
    return Standing(
        estimate=estimate,
        low=low,
        high=high,
        is_in_race=is_in_race,
        leader=leader,
        challenger=challenger,
        next=np.where(is_leader_less_known[..., 0], leader, challenger),
        is_settled=best_other <= of_leader(low)[..., 0] + rules.tolerance,
    )


def is_exploration_turn(batches_given: int, rules: RaceRules) -> bool:
    """Whether the next batch goes to whoever has run least, so that validation data does not only show winners."""
    return rules.explore_every > 0 and batches_given % rules.explore_every == rules.explore_every - 1


def least_run(scores: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Index of the candidate with fewest episodes, the better score first."""
    order = np.broadcast_to(np.argsort(-scores, axis=-1, kind="stable"), trials.shape)
    first = np.take_along_axis(trials, order, axis=-1).argmin(axis=-1)
    return np.asarray(np.take_along_axis(order, first[..., None], axis=-1)[..., 0])


def _expect_from_scores(
    scores: np.ndarray, successes: np.ndarray, trials: np.ndarray, rules: RaceRules
) -> tuple[np.ndarray, np.ndarray]:
    """The success rate each score lets one expect, and for how many episodes that expectation counts.

    A line through the results so far turns scores into rates; the closer results lie to it, the more it counts. A
    score that does not predict success thereby loses its say within the race itself.
    """
    spread = scores.std(axis=-1, keepdims=True)
    z = (scores - scores.mean(axis=-1, keepdims=True)) / np.where(spread > 0.0, spread, 1.0)
    say = trials / (trials + HALF_SAY)
    rate = (successes + 0.5) / (trials + 1.0)
    says = say.sum(axis=-1, keepdims=True) + 1.0
    mean_rate = ((say * rate).sum(axis=-1, keepdims=True) + 0.5) / says
    mean_z = (say * z).sum(axis=-1, keepdims=True) / says
    covariance = (say * (rate - mean_rate) * (z - mean_z)).sum(axis=-1, keepdims=True) + PRIOR_SLOPE
    slope = covariance / ((say * (z - mean_z) ** 2).sum(axis=-1, keepdims=True) + 1.0)
    expected = np.clip(mean_rate + slope * (z - mean_z), 0.02, 0.98)
    excess = (rate - expected) ** 2 - rate * (1.0 - rate) / (trials + 1.0)
    squares = (PRIOR_SPREAD**2 + (say * excess).sum(axis=-1, keepdims=True)) / says
    weight = expected * (1.0 - expected) / np.maximum(squares, LEAST_SPREAD**2)
    return expected, np.clip(weight, min(1.0, rules.score_episodes), rules.score_episodes)
