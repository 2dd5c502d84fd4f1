"""All steps of a set of episodes as arrays, including small images, for judges that need all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.policies.critic import IMAGE_SIDE
from opc_ros.policies.image_view import ImageView
from opc_ros.scoring.episode_states import read_states
from opc_ros.scoring.source import EpisodeRef, EpisodeSource
from opc_ros.task import Task, find_task

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class RecordedSet:
    """N steps of E episodes, concatenated."""

    task: Task
    keys: tuple[str, ...]  # (E,), sha256 of each episode's file
    images: np.ndarray  # (N, side, side, 3) uint8
    states: np.ndarray  # (N, S)
    actions: np.ndarray  # (N, A)
    lengths: np.ndarray  # (E,)
    success: np.ndarray  # (E,) bool

    @property
    def steps_to_end(self) -> np.ndarray:
        """How many steps follow each one in its episode, (N,)."""
        ends = np.repeat(np.cumsum(self.lengths), self.lengths)
        return np.asarray(ends - 1 - np.arange(ends.size))


def read_recorded(source: EpisodeSource, refs: Sequence[EpisodeRef]) -> RecordedSet:
    """Decode every frame once; refs of episodes that cannot be read are left out."""
    view = ImageView((IMAGE_SIDE, IMAGE_SIDE))
    states = [
        state
        for start in range(0, len(refs), _AT_ONCE)
        for state in read_states(source, refs[start : start + _AT_ONCE], {view})[0]
    ]
    return RecordedSet(
        task=find_task(states[0].task, where=f"episode {refs[0].id}"),
        keys=tuple(ref.file_sha256 for ref in refs),
        images=np.concatenate([state.images[view] for state in states]),
        states=np.concatenate([state.tools for state in states]),
        actions=np.concatenate([state.actions for state in states]),
        lengths=np.array([state.facts.steps for state in states], dtype=np.int64),
        success=np.array([ref.is_success for ref in refs], dtype=np.bool_),
    )
