"""Tries a candidate of kind policy on a few frames and says in plain words what is wrong with it."""

from __future__ import annotations

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.grasp import ActionBounds
from opc_ros.policies.check import Defect
from opc_ros.policies.policy import Policy
from opc_ros.policies.q_function import Observations

_SAME = 1e-4
_MANY = 0.5  # of the answers


def check_policy(policy: Policy, observations: Observations) -> tuple[Defect, ...]:
    """What is wrong, worst first; empty if nothing is. Needs at least four different states."""
    try:
        return _find_all(policy, observations)
    except CandidateError as error:
        return (Defect(True, str(error)),)
    except Exception as error:  # whatever a candidate raises is a finding about it
        reason = " ".join(str(error).split())[:300]
        return (Defect(True, f"raised {type(error).__name__}: {reason}"),)


def _find_all(policy: Policy, observations: Observations) -> tuple[Defect, ...]:
    actions, _ = policy.decide_each(observations, seed=0)
    again, _ = policy.decide_each(observations, seed=0)
    worst = float(np.abs(again - actions).max())
    if worst > _SAME:
        text = f"two identical calls differ by up to {worst:.3g}: is dropout on, or is noise drawn inside?"
        return (Defect(True, text),)
    if np.ptp(actions, axis=0).max() == 0:
        return (Defect(True, f"every one of {len(actions)} answers is the same action: the output is constant"),)
    findings = []
    negative = Observations(images=255 - observations.images, tools=observations.tools)
    if np.array_equal(policy.decide_each(negative, seed=0)[0], actions):
        findings.append(Defect(False, "inverted images change nothing: the image is ignored"))
    at_bounds = _count_at_bounds(actions, policy.candidate.manifest.input.action_bounds)
    if at_bounds > _MANY * len(actions):
        text = f"{at_bounds} of {len(actions)} answers lie at the bounds of an action: are they in metres and radians?"
        findings.append(Defect(False, text))
    return tuple(findings)


def _count_at_bounds(actions: np.ndarray, bounds: ActionBounds) -> int:
    turned = np.abs(np.arctan2(actions[:, 3], actions[:, 4])) >= bounds.rotation_rad - 1e-6
    moved = (np.abs(actions[:, :3]) >= bounds.displacement_m - 1e-6).any(axis=1)
    return int(np.count_nonzero(turned | moved))
