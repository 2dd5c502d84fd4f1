"""How much of what its Q promises a policy's own action search misses: what is scored is what runs.

A score evaluates Q at recorded actions, which no search has chosen: without this, good weights with a worthless search
would tie with the original. A policy with the standard search over all actions of its task needs no measurement,
because that search is our code, whatever the weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.action_space import ActionChoices, find_whole_space
from opc_ros.policies.greedy import draw_actions, greedy_actions
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.policy import Policy
from opc_ros.policies.q_function import Observations
from opc_ros.scoring.episode_states import EpisodeStates
from opc_ros.scoring.q_cache import EpisodeKey
from opc_ros.scoring.source import EpisodeRef

STATES = 24  # one in each of this many episodes
REFERENCE = CrossEntropySearch(samples=128, elites=8, rounds=3)  # twice the standard search
DRAWS = 64  # actions drawn uniformly, whose mean Q is what no search at all would reach
SEED = 0  # of reference and draws, the same for every candidate
SEARCH = "search_shortfall:1"  # the quantity's name in the Q cache; change it with anything above
_ULPS = 8  # Q values within this many float32 steps are equal: sums round differently


def is_standard(manifest: CandidateManifest) -> bool:
    """Whether a policy uses the standard search over everything its task allows."""
    is_everywhere = manifest.input.action_space == find_whole_space(manifest.task)
    return is_everywhere and manifest.action_search == CrossEntropySearch()


def choose_searched(refs: Sequence[EpisodeRef], count: int = STATES) -> frozenset[EpisodeKey]:
    """Episodes in which searches are measured, chosen by their bytes, so that a growing store keeps most of them."""
    order = sorted(refs, key=lambda ref: _hash(ref.file_sha256))
    return frozenset(ref.key for ref in order[:count])


def measure_shortfall(policy: Policy, states: EpisodeStates, images: np.ndarray) -> np.ndarray:
    """(T,) float32: the shortfall at one step of an episode, and NaN at all others, which are not measured.

    It is (best - own) / (best - even), from 0 to 1. `own` is Q at the action that the policy's own search chooses.
    `best` is the highest Q that a thorough search over all actions of the task, or a recorded action, reaches in the
    same state. `even` is the mean Q of actions drawn uniformly. It does not change with the scale of Q.

    Args:
        policy: the policy whose search is measured.
        states: an episode.
        images: of its steps, at the size of the policy's input, (T, H, W, 3).
    """
    step = int.from_bytes(_hash(states.facts.file_sha256)[8:16]) % states.facts.steps
    seen = Observations(images=images[step : step + 1], tools=states.tools[step : step + 1])
    chosen, _ = policy.decide_each(seen, seed=states.seed, first_step=step)
    reached, even = _find_others(policy, seen, states.actions)
    values = policy.q_in_one_state(seen, np.concatenate([chosen, reached, even]))
    found = np.full(states.facts.steps, np.nan, dtype=np.float32)
    found[step] = compute_shortfall(float(values[0]), float(values.max()), float(values[-len(even) :].mean()))
    return found


def compute_shortfall(own: float, best: float, even: float) -> float:
    """The share of the gain over uniformly drawn actions that is missed; 0 if Q does not distinguish actions."""
    resolution = _ULPS * float(np.spacing(np.float32(max(map(abs, (own, best, even))))))
    missed, gain = best - own, best - even
    return min(1.0, missed / gain) if missed > resolution and gain > resolution else 0.0


def offer_choices(manifest: CandidateManifest, recorded: np.ndarray) -> np.ndarray:
    """All actions of a task that has no bounds to search within, (K, A): the candidate's choices, and recorded ones."""
    space = manifest.input.action_space
    named = space.to_array() if isinstance(space, ActionChoices) else recorded[:0]
    return np.unique(np.concatenate([named, recorded]), axis=0)


def _find_others(policy: Policy, seen: Observations, recorded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The actions a thorough search or a recorded policy would choose there, and actions drawn uniformly."""
    manifest = policy.candidate.manifest
    whole = find_whole_space(manifest.task)
    if whole is None:
        return recorded, offer_choices(manifest, recorded)
    thorough, _ = greedy_actions(_InOneState(policy), seen, whole, REFERENCE, SEED)
    return np.concatenate([thorough, recorded]), draw_actions(whole, DRAWS, SEED)


class _InOneState:
    """A policy's Q, for a search in one state at a time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
        return self._policy.q(observations, actions)

    def encode(self, observations: Observations) -> Observations:
        return observations

    def head(self, code: Observations, actions: np.ndarray) -> np.ndarray:
        assert len(code) == 1
        return self._policy.q_in_one_state(code, actions)


def _hash(file_sha256: str) -> bytes:
    return hashlib.sha256(f"opc own search\n{file_sha256}".encode()).digest()
