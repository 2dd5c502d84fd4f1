"""How close a candidate's own actions are to the recorded ones, in units of how much recorded actions vary there."""

from __future__ import annotations

import numpy as np

from opc_ros.scoring.recorded_set import RecordedSet
from opc_ros.task import Task

VERSION = "1"
FAR = 8  # from this many steps before the end on, steps are treated alike
_ROUNDING = 1e-6  # of the largest number: smaller variations count as none
_LEAST_SHARE = 0.1  # of the overall spread: where all recorded actions agree, small differences still count a little


class AgreementJudge:
    """Minus the squared distance to the recorded action; a flag that differs counts 1."""

    def __init__(self, recorded: RecordedSet) -> None:
        self._recorded = recorded.actions
        self._is_flag = find_flags(recorded.task)
        self._spread = spread_by_step(recorded.actions[:, ~self._is_flag], recorded.steps_to_end)

    def rate(self, actions: np.ndarray) -> np.ndarray:
        """Of own actions (N, A), (N,) float32; 0 for the recorded action itself."""
        moved = (actions - self._recorded)[:, ~self._is_flag] / self._spread
        differing = (actions > 0.5) != (self._recorded > 0.5)
        apart = (moved**2).sum(axis=1) + differing[:, self._is_flag].sum(axis=1)
        return np.asarray(-apart, dtype=np.float32)


def find_flags(task: Task) -> np.ndarray:
    """Which numbers of an action are flags: those without a unit, from 0 to 1."""
    return np.array([(quantity.unit, quantity.low, quantity.high) == ("", 0.0, 1.0) for quantity in task.actions])


def spread_by_step(actions: np.ndarray, steps_to_end: np.ndarray) -> np.ndarray:
    """Standard deviation (N, A) of all recorded actions that are equally far from the end of their episodes."""
    actions = actions.astype(np.float64)
    overall = actions.std(axis=0)
    overall[overall <= _ROUNDING * np.abs(actions).max(axis=0)] = 0.0
    spread = np.empty_like(actions)
    far = np.minimum(steps_to_end, FAR)
    for steps in np.unique(far):
        at = far == steps
        spread[at] = np.maximum(actions[at].std(axis=0), _LEAST_SHARE * overall)
    return np.where(overall > 0, spread, np.inf)  # numbers that never vary do not count
