"""MCC error: how far Q is from the return corrected by advantages; reported, never ranked by."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.scoring.baselines import final_rewards, greedy_values, mcc_error
from opc_ros.scoring.metric import Answers, Direction


@dataclass(frozen=True, slots=True)
class MccError:
    """The metric as an object."""

    name: str = "mcc_error"
    title: str = "MCC error"
    direction: Direction = "lower is better"
    bounds: tuple[float, float] = (0.0, float("inf"))
    needs_greedy: bool = True

    def score(self, answers: Answers, *, prior: float) -> float:
        rewards = final_rewards(answers.lengths, answers.success)
        return mcc_error(answers.q, greedy_values(answers, self.title), answers.lengths, rewards)


METRIC = MccError()
