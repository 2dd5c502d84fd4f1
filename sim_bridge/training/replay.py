"""Recorded transitions in memory: images decoded once, at the size the network needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Episode
from opc_ros.errors import TrainingError
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.q_function import Observations
from opc_ros.progress import Report, ignore_progress

SMALLEST_DATA = 20  # episodes; fewer cannot be split into a training and a held-out part
_SPLIT_STREAM = 2


@dataclass(frozen=True, slots=True)
class Replay:
    """Transitions of several episodes, concatenated."""

    images: np.ndarray  # (N, S, S, 3) uint8
    tools: np.ndarray  # (N, 5) float32
    actions: np.ndarray  # (N, 8) float32, as chosen
    lengths: np.ndarray  # (E,)
    success: np.ndarray  # (E,) bool

    def __len__(self) -> int:
        return len(self.images)

    @property
    def is_last(self) -> np.ndarray:
        """Whether each transition ends its episode, (N,)."""
        ends = np.zeros(len(self), dtype=bool)
        ends[np.cumsum(self.lengths) - 1] = True
        return ends

    @property
    def final_reward(self) -> np.ndarray:
        """The outcome of the transition's episode, 0 or 1, (N,)."""
        return np.repeat(self.success, self.lengths).astype(np.float32)

    @property
    def steps_left(self) -> np.ndarray:
        """How many transitions of its episode follow each one, (N,)."""
        ends = np.repeat(np.cumsum(self.lengths) - 1, self.lengths)
        return ends - np.arange(len(self))

    def observations(self, rows: np.ndarray) -> Observations:
        return Observations(images=self.images[rows], tools=self.tools[rows])

    def take_episodes(self, chosen: np.ndarray) -> Replay:
        """Only the episodes with these indices."""
        starts = np.cumsum(self.lengths) - self.lengths
        rows = np.concatenate([np.arange(starts[e], starts[e] + self.lengths[e]) for e in chosen])
        return Replay(
            self.images[rows], self.tools[rows], self.actions[rows], self.lengths[chosen], self.success[chosen]
        )


def load_replay(
    episodes: Iterable[Episode], *, image_size: int, count: int, report: Report = ignore_progress
) -> Replay:
    """Decode and shrink all images; `count` is the expected number of episodes."""
    images, tools, actions, lengths, success = [], [], [], [], []
    for done, episode in enumerate(episodes, start=1):
        if episode.label.is_success is None:
            raise TrainingError(f"episode {episode.id}: has no label; label it or take a snapshot without it")
        images.append(np.stack([_image_at(episode, index, image_size) for index in range(len(episode.steps))]))
        tools.append(episode.states())
        actions.append(episode.actions())
        lengths.append(len(episode.steps))
        success.append(episode.label.is_success)
        report(done, count, "decoding")
    check_outcomes(len(success), sum(success))
    return Replay(
        images=np.concatenate(images),
        tools=np.concatenate(tools).astype(np.float32),
        actions=np.concatenate(actions),
        lengths=np.array(lengths),
        success=np.array(success),
    )


def check_outcomes(episodes: int, successes: int) -> None:
    """Refuse data that nothing can be learned from; cheap enough to call before decoding a single image."""
    if episodes < SMALLEST_DATA:
        raise TrainingError(f"{episodes} episodes to learn from, expected at least {SMALLEST_DATA}; collect more")
    if successes < 2:
        raise TrainingError(
            f"{successes} of {episodes} episodes succeeded, expected at least 2; collect with a better policy"
        )
    if episodes - successes < 2:
        raise TrainingError(
            f"{episodes - successes} of {episodes} episodes failed, expected at least 2; collect with a worse one"
        )


def split_episodes(replay: Replay, share: float, seed: int) -> tuple[Replay, Replay]:
    """A training and a held-out part: whole episodes, with the same share of successes in both."""
    rng = np.random.default_rng((seed, _SPLIT_STREAM))
    held_out: list[int] = []
    for outcome in (True, False):
        members = rng.permutation(np.flatnonzero(replay.success == outcome))
        held_out += members[: min(max(1, round(share * len(members))), len(members) - 1)].tolist()
    is_held_out = np.isin(np.arange(len(replay.lengths)), held_out)
    return replay.take_episodes(np.flatnonzero(~is_held_out)), replay.take_episodes(np.flatnonzero(is_held_out))


def _image_at(episode: Episode, index: int, size: int) -> np.ndarray:
    image = episode.steps[index].frame.decode()
    height, width = image.shape[:2]
    if height != width or height < size:
        raise TrainingError(
            f"episode {episode.id}: image of step {index} is {width}x{height}, expected square and at least "
            f"{size}x{size}; set image_size, or collect larger images"
        )
    return resize_image(image, (size, size))
