"""Episodes of Pong, the task that has moves and no tool."""

from __future__ import annotations

import dataclasses

from opc_ros.episode import Episode, Frame, Label, LabelSource, PlainStep
from tests.store.grasps import make_episode

WON = Label(True, LabelSource.EPISODE_END, "emulator")


def make_point(episode_id: str = "p1", *, moves: tuple[float, ...] = (0.0, 1.0, -1.0)) -> Episode:
    frame = Frame(0, "jpeg", make_episode(image_size=16).steps[0].frame.data)
    steps = tuple(
        PlainStep(dataclasses.replace(frame, stamp_ns=(index + 1) * 1_000_000), (move,), is_last=index == 2)
        for index, move in enumerate(moves)
    )
    return Episode(episode_id, "emulator", "dqn", steps, WON, task="pong", seed=7)
