"""Validation episodes: points played by partly trained policies, recorded in a validation store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from opc_ros.episode import Episode, Frame, Label, LabelSource, PlainStep
from opc_ros.experiments.pong.emulator import ACTIONS, FRAMES_PER_DECISION, FRAMES_PER_SECOND, make_starts
from opc_ros.experiments.pong.playing import Point, explore, make_policy, open_games, play_points
from opc_ros.experiments.pong.side_by_side import prepare_worker
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import open_store
from opc_ros.task import PONG
from opc_ros.workers import work_through

EPSILON = 0.1  # of random actions, so that episodes from the same start differ
_STARTS, _LUCK = 13, 31  # seeds
_DECISION_NS = 1_000_000_000 * FRAMES_PER_DECISION // FRAMES_PER_SECOND
_EPISODE_NS = 60_000_000_000  # between episodes


@dataclass(frozen=True, slots=True)
class _Session:
    """The points that one policy plays at one stickiness, numbered within all."""

    policy: Candidate
    stickiness: float
    numbers: range
    total: int
    games: int

    @property
    def ids(self) -> list[str]:
        return [f"point-{number:05d}" for number in self.numbers]


def record_points(
    stores: Mapping[float, Path],
    policies: Sequence[Candidate],
    points: int,
    games: int,
    *,
    workers: int = 1,
    report: Report = ignore_progress,
) -> None:
    """Play this many points of each policy at each stickiness into its store; existing ones are not played again.

    Every point has a start of its own, the same at each stickiness.
    """
    with contextlib.ExitStack() as stack:
        opened = {key: stack.enter_context(open_store(path, create=True)) for key, path in stores.items()}
        known = {key: {episode.id for episode in store.episodes()} for key, store in opened.items()}
        sessions = [
            _Session(policy, stickiness, range(rank * points, (rank + 1) * points), len(policies) * points, games)
            for stickiness in stores
            for rank, policy in enumerate(policies)
        ]
        missing = [session for session in sessions if not known[session.stickiness].issuperset(session.ids)]
        done = len(sessions) - len(missing)
        report(done, len(sessions))
        for session, episodes in work_through(missing, _play, workers=workers, prepare=prepare_worker):
            for episode in episodes:
                if episode.id not in known[session.stickiness]:
                    opened[session.stickiness].append(episode)
            done += 1
            report(done, len(sessions), f"sticky {session.stickiness:.0%}, {session.policy.name}")


def _play(session: _Session) -> list[Episode]:
    first, end = session.numbers.start, session.numbers.stop
    choose = explore(make_policy(session.policy), EPSILON, np.random.default_rng((_LUCK, first)))
    starts = make_starts(session.total, _STARTS)[first:end]
    played = play_points(open_games(session.games), choose, starts, session.stickiness, _LUCK + first)
    return [
        to_episode(point, session.ids[point.index], session.policy.name, session.numbers[point.index])
        for point in sorted(played, key=lambda point: point.index)
    ]


def to_episode(point: Point, episode_id: str, policy_name: str, number: int) -> Episode:
    """A point as an episode of the store; timestamps are the emulator's time, with one episode a minute."""
    began_ns = (number + 1) * _EPISODE_NS
    steps = tuple(
        PlainStep(
            frame=Frame(began_ns + index * _DECISION_NS, "png", _encode(image)),
            action=ACTIONS[action],
            is_last=index == len(point.images) - 1,
        )
        for index, (image, action) in enumerate(zip(point.images, point.actions.tolist(), strict=True))
    )
    return Episode(
        id=episode_id,
        robot="pong",
        behaviour_policy=policy_name,
        steps=steps,
        label=Label(point.is_won, LabelSource.EPISODE_END, "emulator"),
        task=PONG.name,
    )


def _encode(image: np.ndarray) -> bytes:
    """PNG is lossless, and a nearly empty image becomes small."""
    _, data = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    return data.tobytes()
