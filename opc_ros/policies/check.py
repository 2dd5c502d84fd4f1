"""Try a Q function on a few frames and say in plain words what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.policies.loading import check_values
from opc_ros.policies.q_function import Observations, QFunction

_SAME = 1e-4  # float32 networks differ by less between batches


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a Q function that its maker should know."""

    is_fatal: bool  # no score can come of it
    text: str


def check_q_function(q_function: QFunction, observations: Observations, actions: np.ndarray) -> tuple[Finding, ...]:
    """What is wrong, worst first; nothing if all is well. Give it at least four states with different actions."""
    try:
        return _find_all(q_function, observations, actions)
    except CandidateError as error:
        return (Finding(True, str(error)),)
    except Exception as error:  # whatever a candidate raises is a finding about it
        reason = " ".join(str(error).split())[:300]
        return (Finding(True, f"raised {type(error).__name__}: {reason}"),)


def _find_all(q_function: QFunction, observations: Observations, actions: np.ndarray) -> tuple[Finding, ...]:
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
) -> Finding | None:
    again = check_values(q_function.q(observations, actions), len(actions))
    worst = float(np.abs(again - values).max())
    if worst <= _SAME:
        return None
    return Finding(True, f"asked twice the same, answers differ by up to {worst:.3g}: is dropout or sampling still on?")


def _find_constant(
    q_function: QFunction, observations: Observations, actions: np.ndarray, values: np.ndarray
) -> Finding | None:
    if np.ptp(values) == 0:
        return Finding(True, f"every one of {len(values)} answers is {values[0]:.6g}: the output is constant")
    shifted = np.roll(actions, 1, axis=0)
    if np.array_equal(check_values(q_function.q(observations, shifted), len(actions)), values):
        return Finding(True, "other actions in the same states change nothing: the action is ignored")
    negative = Observations(images=255 - observations.images, tools=observations.tools)
    if np.array_equal(check_values(q_function.q(negative, actions), len(actions)), values):
        return Finding(False, "inverted images change nothing: the image is ignored")
    return None


def _find_row_mixing(
    q_function: QFunction, observations: Observations, actions: np.ndarray, values: np.ndarray
) -> Finding | None:
    alone = Observations(images=observations.images[:1], tools=observations.tools[:1])
    worst = abs(float(check_values(q_function.q(alone, actions[:1]), 1)[0] - values[0]))
    if worst <= _SAME:
        return None
    return Finding(
        True, f"a state's answer changes by {worst:.3g} with who else is in the batch: is normalisation still training?"
    )


def _find_range(values: np.ndarray) -> Finding | None:
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return None
    return Finding(
        False,
        f"answers from {low:.4g} to {high:.4g}, expected 0 to 1 for a success probability: "
        "OPC does not mind, SoftOPC compares means and does",
    )
