"""What a learner has lived through, each image as the few numbers that its network sees in it."""

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
    weight: np.ndarray  # (B,) float32: what the value after the steps counts, 0 where the point is over by then
    is_known: np.ndarray  # (B,) bool; False where the steps run into a cut, so that nothing is known of their end


@dataclass(frozen=True, slots=True)
class Decisions:
    """What G games lived through, one row for each decision."""

    seen: np.ndarray  # (T, G, F) float32, before the decision
    actions: np.ndarray  # (T, G) uint8
    points: np.ndarray  # (T, G) float32, with the decision the point is won (1) or lost (-1): the only reward there is
    ends: np.ndarray  # (T, G) bool, with the decision the point is over
    cuts: np.ndarray  # (T, G) bool, after the decision the game was left

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
        """Add rows; the oldest make room."""
        size = len(self._rows.actions)
        decisions = decisions[-size:]
        at = (self._next + np.arange(len(decisions.actions))) % size
        for name, values in decisions.arrays().items():
            getattr(self._rows, name)[at] = values
        self._next = (self._next + len(at)) % size
        self._filled = min(size, self._filled + len(at))

    def rows(self) -> Decisions:
        """All there is, the oldest first."""
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
