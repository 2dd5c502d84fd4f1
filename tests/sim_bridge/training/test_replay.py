from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from opc_ros.episode import Episode, Label, LabelSource
from opc_ros.errors import TrainingError
from sim_bridge.training.replay import Replay, load_replay, split_episodes
from tests.policies.making import make_episodes


def relabel(episode: Episode, is_success: bool | None) -> Episode:
    source = LabelSource.NONE if is_success is None else LabelSource.PERSON
    return dataclasses.replace(episode, label=Label(is_success=is_success, source=source))


def test_images_are_shrunk_and_actions_kept() -> None:
    episodes = make_episodes(20, image_size=64)
    replay = load_replay(episodes, image_size=32, count=20)
    assert replay.images.shape == (sum(len(e.steps) for e in episodes), 32, 32, 3)
    np.testing.assert_array_equal(replay.actions[:3], episodes[0].actions())
    assert replay.success.tolist() == [e.label.is_success for e in episodes]


def test_ends_rewards_and_steps_left_follow_the_episodes() -> None:
    rows = np.zeros((5, 4, 4, 3), np.uint8)
    replay = Replay(rows, np.zeros((5, 5)), np.zeros((5, 8)), np.array([3, 2]), np.array([True, False]))
    assert replay.is_last.tolist() == [False, False, True, False, True]
    assert replay.final_reward.tolist() == [1, 1, 1, 0, 0]
    assert replay.steps_left.tolist() == [2, 1, 0, 1, 0]


def test_the_split_keeps_episodes_whole_and_outcomes_in_proportion(replay: Replay) -> None:
    learned, held_out = split_episodes(replay, 0.25, seed=1)
    assert len(learned) + len(held_out) == len(replay)
    assert held_out.success.sum() == round(0.25 * replay.success.sum())
    assert (~held_out.success).sum() == round(0.25 * (~replay.success).sum())
    pairs = {row.tobytes() for row in np.hstack([replay.tools, replay.actions])}
    assert {row.tobytes() for row in np.hstack([held_out.tools, held_out.actions])} <= pairs


@pytest.mark.parametrize(
    ("outcomes", "complaint"),
    [
        ([True] * 10 + [False] * 9, "19 episodes to learn from, expected at least 20"),
        ([False] * 30, "0 of 30 episodes succeeded, expected at least 2; collect with a better policy"),
        ([True] * 30, "0 of 30 episodes failed, expected at least 2"),
        ([True, None] * 15, "e00001: has no label"),
    ],
)
def test_data_that_cannot_teach_is_refused(outcomes: list[bool | None], complaint: str) -> None:
    episodes = [relabel(e, o) for e, o in zip(make_episodes(len(outcomes), image_size=32), outcomes, strict=True)]
    with pytest.raises(TrainingError, match=complaint):
        load_replay(episodes, image_size=32, count=len(episodes))


def test_images_of_another_size_are_refused_by_episode() -> None:
    episodes = [*make_episodes(3, image_size=64), *make_episodes(4, image_size=32)[3:]]
    with pytest.raises(TrainingError, match="e00003: image of step 0 is 32x32, expected square and at least 64x64"):
        load_replay(episodes, image_size=64, count=4)
