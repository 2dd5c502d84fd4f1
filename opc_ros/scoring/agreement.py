"""How near a candidate's own actions lie to the recorded ones, in units of how much recorded actions vary there."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.recorded_set import RecordedSet
from opc_ros.task import Task

VERSION = "1"
FAR = 8  # steps from the end that are no longer told apart
_ROUNDING = 1e-6  # of the largest number: what varies by less is the same
_LEAST_SHARE = 0.1  # of the overall spread: where all do the same, a little still differs


class AgreementJudge:
    """Minus the squared distance to the recorded action; a flag that differs counts 1."""

    def __init__(self, recorded: RecordedSet) -> None:
        self._recorded = recorded.actions
        self._is_flag = find_flags(recorded.task)
        self._spread = spread_by_step(recorded.actions[:, ~self._is_flag], recorded.steps_to_end)

    def rate(self, actions: np.ndarray) -> np.ndarray:
        """For own actions (N, A), (N,) float32; 0 is the recorded action itself."""
        moved = (actions - self._recorded)[:, ~self._is_flag] / self._spread
        differing = (actions > 0.5) != (self._recorded > 0.5)
        apart = (moved**2).sum(axis=1) + differing[:, self._is_flag].sum(axis=1)
        return np.asarray(-apart, dtype=np.float32)


def find_flags(task: Task) -> np.ndarray:
    """Which numbers of an action are off or on: plain ones from 0 to 1."""
    return np.array([(quantity.unit, quantity.low, quantity.high) == ("", 0.0, 1.0) for quantity in task.actions])


def spread_by_step(actions: np.ndarray, steps_to_end: np.ndarray) -> np.ndarray:
    """Standard deviation (N, A) of the recorded actions that are as far from the end of their episodes."""
    actions = actions.astype(np.float64)
    overall = actions.std(axis=0)
    overall[overall <= _ROUNDING * np.abs(actions).max(axis=0)] = 0.0
    spread = np.empty_like(actions)
    far = np.minimum(steps_to_end, FAR)
    for steps in np.unique(far):
        at = far == steps
        spread[at] = np.maximum(actions[at].std(axis=0), _LEAST_SHARE * overall)
    return np.where(overall > 0, spread, np.inf)  # what nobody ever varied does not count
