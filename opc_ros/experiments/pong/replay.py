"""A learner's replay memory, with each image reduced to the few numbers that its network sees."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions over several steps each."""

    seen: np.ndarray  # (B, F) float32
    actions: np.ndarray  # (B,) int64
    returns: np.ndarray  # (B,) float32, discounted rewards of the steps
    following: np.ndarray  # (B, F) float32, after the steps
    weight: np.ndarray  # (B,) float32: weight of the value after the steps, 0 if the point is over by then
    is_known: np.ndarray  # (B,) bool; False if the steps run into a cut, so that their end is unknown


@dataclass(frozen=True, slots=True)
class Decisions:
    """The experience of G games, one row per decision."""

    seen: np.ndarray  # (T, G, F) float32, before the decision
    actions: np.ndarray  # (T, G) uint8
    points: np.ndarray  # (T, G) float32, whether this decision wins (1) or loses (-1) the point: the only reward
    ends: np.ndarray  # (T, G) bool, whether this decision ends the point
    cuts: np.ndarray  # (T, G) bool, whether the game was left after this decision

    @classmethod
    def empty(cls, rows: int, games: int, features: int) -> Decisions:
        return cls(
            seen=np.zeros((rows, games, features), dtype=np.float32),
            actions=np.zeros((rows, games), dtype=np.uint8),
            points=np.zeros((rows, games), dtype=np.float32),
            ends=np.zeros((rows, games), dtype=bool),
            cuts=np.zeros((rows, games), dtype=bool),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __getitem__(self, rows: slice) -> Decisions:
        return Decisions(**{name: values[rows] for name, values in self.arrays().items()})


class PongReplay:
    """The last decisions of some games, as many as fit."""

    def __init__(self, capacity: int, games: int, features: int) -> None:
        self._rows = Decisions.empty(max(1, capacity // games), games, features)
        self._games = games
        self._next = 0
        self._filled = 0

    def append(self, decisions: Decisions) -> None:
        """Add rows, dropping the oldest if necessary."""
        size = len(self._rows.actions)
        decisions = decisions[-size:]
        at = (self._next + np.arange(len(decisions.actions))) % size
        for name, values in decisions.arrays().items():
            getattr(self._rows, name)[at] = values
        self._next = (self._next + len(at)) % size
        self._filled = min(size, self._filled + len(at))

    def rows(self) -> Decisions:
        """Everything in memory, the oldest first."""
        at = (self._next - self._filled + np.arange(self._filled)) % len(self._rows.actions)
        return Decisions(**{name: values[at] for name, values in self._rows.arrays().items()})

    def draw(self, rng: np.random.Generator, count: int, steps: int, discount: float) -> Batch:
        """Random transitions over this many steps."""
        size = len(self._rows.actions)
        row = (self._next - self._filled + rng.integers(self._filled - steps, size=count)) % size
        game = rng.integers(self._games, size=count)
        returns = np.zeros(count, dtype=np.float32)
        weight = np.ones(count, dtype=np.float32)
        is_known = np.ones(count, dtype=bool)
        for step in range(steps):
            at = (row + step) % size
            returns += weight * self._rows.points[at, game]
            weight *= discount * ~self._rows.ends[at, game]
            is_known &= ~(self._rows.cuts[at, game] & (weight > 0))
        return Batch(
            seen=self._rows.seen[row, game],
            actions=self._rows.actions[row, game].astype(np.int64),
            returns=returns,
            following=self._rows.seen[(row + steps) % size, game],
            weight=weight,
            is_known=is_known,
        )
