"""Plays many points in parallel, so that a policy sees a batch of images at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from opc_ros.experiments.pong.emulator import ACTIONS, PongGame
from opc_ros.policies.action_search import AnswerDraw
from opc_ros.policies.action_space import ActionChoices
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations
from opc_ros.task import PONG

CHOICES = ActionChoices(ACTIONS)
Policy = Callable[[np.ndarray], np.ndarray]  # images (B, H, W, 3) -> indices of actions (B,)


@dataclass(frozen=True, slots=True)
class Point:
    """One episode: its start, its outcome, and everything that was seen and chosen on the way."""

    index: int
    is_won: bool
    images: np.ndarray  # (T, H, W, 3) uint8
    actions: np.ndarray  # (T,) indices


def make_policy(candidate: Candidate) -> Policy:
    """The greedy policy of a candidate, found as scoring finds it."""
    q_function, manifest = load_q_function(candidate, device="cpu"), candidate.manifest
    vectors, search = CHOICES.to_array(), manifest.action_search
    assert not isinstance(search, AnswerDraw), "a Q function is searched"

    def choose(images: np.ndarray) -> np.ndarray:
        observations = Observations(images=images, tools=np.zeros((len(images), len(PONG.state)), dtype=np.float32))
        chosen, _ = greedy_actions(q_function, observations, manifest.input.action_space, search)
        return np.asarray((chosen[:, None] == vectors).all(axis=2).argmax(axis=1))

    return choose


def explore(policy: Policy, epsilon: float, rng: np.random.Generator) -> Policy:
    """The same policy, with a random action at this probability."""

    def choose(images: np.ndarray) -> np.ndarray:
        is_random = rng.random(len(images)) < epsilon
        return np.where(is_random, rng.integers(len(ACTIONS), size=len(images)), policy(images))

    return choose


@cache
def open_games(count: int) -> tuple[PongGame, ...]:
    """Games to play in parallel; they are kept, because opening one takes as long as playing a point or two."""
    return tuple(PongGame() for _ in range(count))


def play_points(
    games: Sequence[PongGame], policy: Policy, starts: Sequence[Any], stickiness: float, seed: int
) -> Iterator[Point]:
    """One point from each start, in the order in which they end; luck at the n-th start depends on seed and n."""
    waiting = iter(enumerate(starts))
    running = [_Running(game) for game in games[: len(starts)]]
    for one in running:
        one.begin(*next(waiting), stickiness, seed)
    while running:
        chosen = policy(np.stack([one.game.image for one in running]))
        ended = [one for one, action in zip(running, chosen.tolist(), strict=True) if one.decide(action)]
        for one in ended:
            yield one.finish()
            following = next(waiting, None)
            if following is None:
                running.remove(one)
            else:
                one.begin(*following, stickiness, seed)


class _Running:
    """A game, and what has been seen and chosen in it."""

    def __init__(self, game: PongGame) -> None:
        self.game = game
        self._index = 0
        self._images: list[np.ndarray] = []
        self._actions: list[int] = []

    def begin(self, index: int, start: Any, stickiness: float, seed: int) -> None:
        self._index, self._images, self._actions = index, [], []
        self.game.begin(start, stickiness, np.random.default_rng((seed, index)))

    def decide(self, action: int) -> bool:
        self._images.append(self.game.image)
        self._actions.append(action)
        self.game.decide(action)
        return self.game.is_over

    def finish(self) -> Point:
        return Point(self._index, self.game.points > 0, np.stack(self._images), np.array(self._actions))
