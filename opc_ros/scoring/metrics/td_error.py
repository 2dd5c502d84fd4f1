"""TD error: how far Q is from one step's reward plus the greedy value after it; reported, never ranked by."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.scoring.baselines import final_rewards, greedy_values, td_error
from opc_ros.scoring.metric import Answers, Direction


@dataclass(frozen=True, slots=True)
class TdError:
    """The metric as an object."""

    name: str = "td_error"
    title: str = "TD error"
    direction: Direction = "lower is better"
    bounds: tuple[float, float] = (0.0, float("inf"))
    needs_greedy: bool = True

    def score(self, answers: Answers, *, prior: float) -> float:
        rewards = final_rewards(answers.lengths, answers.success)
        return td_error(answers.q, greedy_values(answers, self.title), answers.lengths, rewards)


METRIC = TdError()
