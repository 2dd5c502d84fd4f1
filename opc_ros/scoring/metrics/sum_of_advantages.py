"""Sum of advantages: how far recorded actions fall short of the policy's own; reported, never ranked by."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.scoring.baselines import discounted_sum_of_advantages, greedy_values
from opc_ros.scoring.metric import UNBOUNDED, Answers, Direction


@dataclass(frozen=True, slots=True)
class SumOfAdvantages:
    """The metric as an object."""

    name: str = "sum_of_advantages"
    title: str = "Sum of advantages"
    direction: Direction = "lower is better"
    bounds: tuple[float, float] = UNBOUNDED
    needs_greedy: bool = True

    def score(self, answers: Answers, *, prior: float) -> float:
        return discounted_sum_of_advantages(answers.q, greedy_values(answers, self.title), answers.lengths)


METRIC = SumOfAdvantages()
