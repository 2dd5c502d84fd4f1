"""Greedy actions: the best of a few choices, or the best that the cross-entropy method finds within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opc_ros.grasp import ACTION_SIZE, ActionBounds
from opc_ros.policies.action_search import ChoiceSearch, CrossEntropySearch
from opc_ros.policies.action_space import ActionChoices, ActionSpace
from opc_ros.policies.loading import check_values
from opc_ros.policies.q_function import FactoredQFunction, Observations, QFunction

_GRIPPER_CHOICES = 3  # leave, open, close
_ROWS_AT_ONCE = 2048  # samples in one pass of a network
_BYTES_AT_ONCE = 256 << 20  # of repeated images


def greedy_actions(
    q_function: QFunction,
    observations: Observations,
    space: ActionSpace,
    search: CrossEntropySearch | ChoiceSearch,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The best action in each state (B, A), and its Q (B,): exact among choices, the best found within bounds.

    All states use the same random numbers, which depend only on the seed and not on the rest of the batch.
    """
    if not len(observations):
        size = space.size if isinstance(space, ActionChoices) else ACTION_SIZE
        return np.zeros((0, size), dtype=np.float32), np.zeros(0, dtype=np.float32)
    if isinstance(search, ChoiceSearch) != isinstance(space, ActionChoices):
        raise ValueError(f"{search.method} cannot search {type(space).__name__}")
    asked = len(space.vectors) if isinstance(space, ActionChoices) else _cem(search).samples
    states_at_once = _states_at_once(q_function, observations, asked)
    parts = []
    for start in range(0, len(observations), states_at_once):
        rows = observations.rows(start, start + states_at_once)
        if isinstance(space, ActionChoices):
            parts.append(_compare(q_function, rows, space))
        else:
            parts.append(_search(q_function, rows, space, _cem(search), seed))
    return np.concatenate([actions for actions, _ in parts]), np.concatenate([values for _, values in parts])


def draw_actions(bounds: ActionBounds, count: int, seed: int) -> np.ndarray:
    """Actions (count, A) drawn uniformly within bounds, as in the first round of every search."""
    drawn = _Proposal.at_the_start(1, bounds).draw(np.random.default_rng(seed), count)
    return np.asarray(drawn.to_vectors()[0])


def q_in_one_state(q_function: QFunction, observation: Observations, actions: np.ndarray) -> np.ndarray:
    """Q (K,) of several actions (K, A) in one state; the image is encoded once if the Q function can do that."""
    rows = len(actions) if isinstance(q_function, FactoredQFunction) else _states_at_once(q_function, observation, 1)
    pieces = [actions[start : start + rows] for start in range(0, len(actions), rows)]
    return np.concatenate([_judge_of(q_function, observation, len(piece))(piece) for piece in pieces])


def _cem(search: CrossEntropySearch | ChoiceSearch) -> CrossEntropySearch:
    assert isinstance(search, CrossEntropySearch)
    return search


def _compare(
    q_function: QFunction, observations: Observations, choices: ActionChoices
) -> tuple[np.ndarray, np.ndarray]:
    """Compare all choices; of equally good ones the first wins."""
    vectors, states = choices.to_array(), len(observations)
    judge = _judge_of(q_function, observations, len(vectors))
    values = judge(np.tile(vectors, (states, 1))).reshape(states, len(vectors))
    best = np.argmax(values, axis=1)
    return vectors[best], values[np.arange(states), best]


def _search(
    q_function: QFunction, observations: Observations, bounds: ActionBounds, search: CrossEntropySearch, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    judge = _judge_of(q_function, observations, search.samples)
    rng = np.random.default_rng(seed)
    states = np.arange(len(observations))
    proposal = _Proposal.at_the_start(len(states), bounds)
    best_action = np.zeros((len(states), ACTION_SIZE), dtype=np.float32)
    best_value = np.full(len(states), -np.inf, dtype=np.float32)
    for _ in range(search.rounds):
        sampled = proposal.draw(rng, search.samples)
        actions = sampled.to_vectors()
        values = judge(actions.reshape(-1, ACTION_SIZE)).reshape(len(states), search.samples)
        elites = np.argsort(-values, axis=1, kind="stable")[:, : search.elites]
        first = elites[:, 0]
        is_better = values[states, first] > best_value
        best_action[is_better] = actions[states, first][is_better]
        best_value[is_better] = values[states, first][is_better]
        proposal = proposal.refit(sampled, elites)
    return best_action, best_value


@dataclass(frozen=True, slots=True)
class _Samples:
    moves: np.ndarray  # (B, K, 4): displacement, rotation
    gripper: np.ndarray  # (B, K): leave, open, close
    terminate: np.ndarray  # (B, K) bool

    def to_vectors(self) -> np.ndarray:
        actions = np.zeros((*self.gripper.shape, ACTION_SIZE), dtype=np.float32)
        actions[..., :3] = self.moves[..., :3]
        actions[..., 3] = np.sin(self.moves[..., 3])
        actions[..., 4] = np.cos(self.moves[..., 3])
        actions[..., 5] = self.gripper == 1
        actions[..., 6] = self.gripper == 2
        actions[..., 7] = self.terminate
        return actions


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The distribution that the next samples are drawn from, one per state."""

    limits: np.ndarray  # (4,)
    mean: np.ndarray | None  # (B, 4); None: uniform within the limits
    spread: np.ndarray  # (B, 4)
    gripper: np.ndarray  # (B, 3) probabilities
    terminate: np.ndarray  # (B,) probabilities

    @classmethod
    def at_the_start(cls, states: int, bounds: ActionBounds) -> _Proposal:
        return cls(
            limits=np.array([*(bounds.displacement_m,) * 3, bounds.rotation_rad]),
            mean=None,
            spread=np.zeros((states, 4)),
            gripper=np.full((states, _GRIPPER_CHOICES), 1.0 / _GRIPPER_CHOICES),
            terminate=np.full(states, 0.5),
        )

    def draw(self, rng: np.random.Generator, samples: int) -> _Samples:
        states = len(self.terminate)
        if self.mean is None:
            moves = np.broadcast_to(rng.uniform(-1.0, 1.0, (samples, 4)) * self.limits, (states, samples, 4))
        else:
            moves = self.mean[:, None] + self.spread[:, None] * rng.standard_normal((samples, 4))
        edges = np.cumsum(self.gripper, axis=1)[:, None, :-1]
        return _Samples(
            moves=np.clip(moves, -self.limits, self.limits),
            gripper=(rng.random(samples)[None, :, None] > edges).sum(axis=2),
            terminate=rng.random(samples)[None] < self.terminate[:, None],
        )

    def refit(self, sampled: _Samples, elites: np.ndarray) -> _Proposal:
        """Fit to the elites (B, elites); one extra vote per choice keeps each of them possible."""
        states = np.arange(len(elites))[:, None]
        moves = sampled.moves[states, elites]
        chosen = sampled.gripper[states, elites]
        votes = np.stack([(chosen == choice).sum(axis=1) + 1.0 for choice in range(_GRIPPER_CHOICES)], axis=1)
        return _Proposal(
            limits=self.limits,
            mean=moves.mean(axis=1),
            spread=moves.std(axis=1) + 1e-3 * self.limits,
            gripper=votes / votes.sum(axis=1, keepdims=True),
            terminate=(sampled.terminate[states, elites].sum(axis=1) + 1.0) / (elites.shape[1] + 2.0),
        )


def _judge_of(q_function: QFunction, observations: Observations, samples: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function of actions (B * K, 8) that encodes each image once if the Q function can do that."""
    rows = len(observations) * samples
    if isinstance(q_function, FactoredQFunction):
        factored = q_function
        code = factored.encode(observations)
        return lambda actions: check_values(factored.head(code, actions), rows)
    repeated = Observations(
        images=np.repeat(observations.images, samples, axis=0), tools=np.repeat(observations.tools, samples, axis=0)
    )
    return lambda actions: check_values(q_function.q(repeated, actions), rows)


def _states_at_once(q_function: QFunction, observations: Observations, samples: int) -> int:
    """As many states as fit the memory bound; a Q function in one piece needs a copy of the image for each sample."""
    rows = _ROWS_AT_ONCE
    if not isinstance(q_function, FactoredQFunction):
        rows = min(rows, _BYTES_AT_ONCE // (4 * max(1, observations.images[0].size)))
    return max(1, rows // samples)
