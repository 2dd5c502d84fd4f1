"""Tries a Q function on a few frames and says in plain words what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.policies.loading import check_values
from opc_ros.policies.q_function import Observations, QFunction

_SAME = 1e-4  # two calls of a float32 network differ by less
_ELSEWHERE_M = 0.02
_SHARE_OF_SPREAD = 1e-3  # far above rounding errors, far below a difference that would change the order of candidates
_SHARE_OF_SIZE = 1e-5


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing about a Q function that its maker should know."""

    is_fatal: bool  # makes scoring impossible
    text: str


def check_q_function(q_function: QFunction, observations: Observations, actions: np.ndarray) -> tuple[Defect, ...]:
    """What is wrong, worst first; empty if nothing is. Needs at least four states with different actions."""
    try:
        return _find_all(q_function, observations, actions)
    except CandidateError as error:
        return (Defect(True, str(error)),)
    except Exception as error:  # whatever a candidate raises is a finding about it
        reason = " ".join(str(error).split())[:300]
        return (Defect(True, f"raised {type(error).__name__}: {reason}"),)


def _find_all(q_function: QFunction, observations: Observations, actions: np.ndarray) -> tuple[Defect, ...]:
    values = check_values(q_function.q(observations, actions), len(actions))
    findings = [
        _find_nondeterminism(q_function, observations, actions, values),
        _find_constant(q_function, observations, actions, values),
        _find_row_mixing(q_function, observations, actions, values),
        _find_range(values),
    ]
    return tuple(sorted((f for f in findings if f is not None), key=lambda finding: not finding.is_fatal))


def _find_nondeterminism(
    q_function: QFunction, observations: Observations, actions: np.ndarray, values: np.ndarray
) -> Defect | None:
    again = check_values(q_function.q(observations, actions), len(actions))
    worst = float(np.abs(again - values).max())
    if worst <= _SAME:
        return None
    return Defect(True, f"two identical calls differ by up to {worst:.3g}: is dropout or sampling still on?")


def _find_constant(
    q_function: QFunction, observations: Observations, actions: np.ndarray, values: np.ndarray
) -> Defect | None:
    if np.ptp(values) == 0:
        return Defect(True, f"every one of {len(values)} answers is {values[0]:.6g}: the output is constant")
    others = np.roll(actions, 1, axis=0)
    is_same = (others == actions).all(axis=1)
    others[is_same, :3] = _ELSEWHERE_M - others[is_same, :3]  # recorded actions may all be equal
    if np.array_equal(check_values(q_function.q(observations, others), len(actions)), values):
        return Defect(True, "other actions in the same states change nothing: the action is ignored")
    negative = Observations(images=255 - observations.images, tools=observations.tools)
    if np.array_equal(check_values(q_function.q(negative, actions), len(actions)), values):
        return Defect(False, "inverted images change nothing: the image is ignored")
    return None


def _find_row_mixing(
    q_function: QFunction, observations: Observations, actions: np.ndarray, values: np.ndarray
) -> Defect | None:
    """Evaluate every state alone, and all of them in other orders."""
    rows = np.arange(len(values))
    for order in (*rows[:, None], rows[::-1], np.roll(rows, len(rows) // 2)):
        asked = Observations(images=observations.images[order], tools=observations.tools[order])
        again = check_values(q_function.q(asked, actions[order]), len(order))
        if complaint := find_dependence(values, order, again):
            return Defect(True, complaint)
    return None


def find_dependence(values: np.ndarray, rows: np.ndarray, again: np.ndarray) -> str:
    """What is wrong if Q in some rows depends on the other rows of the batch; empty if nothing is.

    The allowed difference is relative to the spread of Q, because scores have no fixed scale: a hundredth matters if Q
    is small.

    Args:
        values: Q of many states evaluated together, (N,).
        rows: indices of the rows that were evaluated again, (R,).
        again: their Q when evaluated alone or among other rows, (R,).
    """
    allowed = _SHARE_OF_SPREAD * float(np.ptp(values)) + _SHARE_OF_SIZE * float(np.abs(values).max())
    worst = int(np.argmax(np.abs(again - values[rows])))
    if abs(float(again[worst] - values[rows[worst]])) <= allowed:
        return ""
    return (
        f"answers {values[rows[worst]]:.6g} about a state and {again[worst]:.6g} about it in another batch, "
        "expected the same: it looks at its neighbours in the batch, or its normalisation is still training"
    )


def _find_range(values: np.ndarray) -> Defect | None:
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return None
    return Defect(
        False,
        f"answers from {low:.4g} to {high:.4g}, expected 0 to 1 for a success probability: "
        "OPC is unaffected, SoftOPC compares means and is not",
    )
