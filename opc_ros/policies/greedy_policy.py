"""A candidate as a policy: the greedy action of its Q function in one state."""

from __future__ import annotations

from collections.abc import Callable

from opc_ros.grasp import GraspAction, Observation
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.greedy import CemSettings, greedy_actions
from opc_ros.policies.loading import load_q_function, probe
from opc_ros.policies.q_function import Observations


def make_greedy_policy(
    candidate: Candidate, *, allow_code: bool = False, settings: CemSettings | None = None
) -> Callable[[Observation], GraspAction]:
    """Load the Q function from the candidate's bytes, try it once, and choose with it."""
    q_function = load_q_function(candidate, allow_code=allow_code)
    spec = candidate.manifest.input
    probe(q_function, spec)

    def choose(seen: Observation) -> GraspAction:
        observations = Observations.from_sequence([seen], spec.image_size)
        actions, _ = greedy_actions(q_function, observations, spec.action_space, settings)
        return GraspAction.from_vector(actions[0])

    return choose
