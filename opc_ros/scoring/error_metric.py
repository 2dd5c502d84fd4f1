"""Metrics that say how far Q is from what it should have been, given what became of each episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from opc_ros.scoring.baselines import final_rewards, greedy_values
from opc_ros.scoring.metric import Answers, Direction


class ErrorOfQ(Protocol):
    """An error as a function: Q at recorded actions and at the policy's own, lengths, rewards."""

    def __call__(self, q: ArrayLike, q_greedy: ArrayLike, lengths: ArrayLike, rewards: ArrayLike) -> float: ...


@dataclass(frozen=True, slots=True)
class ErrorMetric:
    """The metric as an object."""

    name: str
    title: str
    error: ErrorOfQ
    direction: Direction = "lower is better"
    bounds: tuple[float, float] = (0.0, float("inf"))
    needs_greedy: bool = True

    def score(self, answers: Answers, *, prior: float) -> float:
        rewards = final_rewards(answers.lengths, answers.success)
        return self.error(answers.q, greedy_values(answers, self.title), answers.lengths, rewards)
