"""Validation episodes: points played by partly trained policies, recorded in a validation store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from opc_ros.experiments.pong.emulator import ACTIONS, FRAMES_PER_DECISION, FRAMES_PER_SECOND, PongGame
from opc_ros.experiments.pong.playing import Point, explore, make_policy, play_points
from opc_ros.grasp import Episode, Frame, GraspStep, Label, LabelSource, ToolState
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import open_store

EPSILON = 0.1  # of random actions, so that no two episodes from like starts are the same
_SEED = 31
_DECISION_NS = 1_000_000_000 * FRAMES_PER_DECISION // FRAMES_PER_SECOND
_EPISODE_NS = 60_000_000_000  # apart
_NO_TOOL = ToolState(0.0, 0.0, 0.0, 0.0, 0.0)


def record_points(
    store_path: Path,
    games: Sequence[PongGame],
    policies: Sequence[Candidate],
    starts: Sequence[Any],
    stickiness: float,
    report: Report = ignore_progress,
) -> None:
    """One episode from each start by each policy; those already in the store are not played again.

    Every policy takes starts of its own: the starts are dealt out in turn.
    """
    per_policy = len(starts) // len(policies)
    with open_store(store_path, create=True) as store:
        known = {episode.id for episode in store.episodes()}
        for rank, policy in enumerate(policies):
            report(rank * per_policy, len(starts), f"sticky {stickiness:.0%}, {policy.name}")
            ids = [f"point-{rank * per_policy + index:05d}" for index in range(per_policy)]
            if known.issuperset(ids):
                continue
            choose = explore(make_policy(policy), EPSILON, np.random.default_rng((_SEED, rank)))
            dealt = starts[rank * per_policy : (rank + 1) * per_policy]
            played = sorted(play_points(games, choose, dealt, stickiness, _SEED + rank), key=lambda point: point.index)
            for point in played:
                if ids[point.index] not in known:
                    store.append(to_episode(point, ids[point.index], policy.name, rank * per_policy + point.index))
    report(len(starts), len(starts), f"sticky {stickiness:.0%}")


def to_episode(point: Point, episode_id: str, policy_name: str, number: int) -> Episode:
    """A point in the words that stores and scores know; stamps are the emulator's time, one episode a minute."""
    began_ns = (number + 1) * _EPISODE_NS
    steps = tuple(
        GraspStep(
            frame=Frame(began_ns + index * _DECISION_NS, "png", _encode(picture)),
            tool=_NO_TOOL,
            action=ACTIONS[action],
        )
        for index, (picture, action) in enumerate(zip(point.pictures, point.actions.tolist(), strict=True))
    )
    return Episode(
        id=episode_id,
        robot="pong",
        behaviour_policy=policy_name,
        steps=steps,
        label=Label(point.is_won, LabelSource.EPISODE_END, "emulator"),
    )


def _encode(picture: np.ndarray) -> bytes:
    """PNG loses nothing, and a picture that is nearly empty becomes small."""
    _, data = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    return data.tobytes()
