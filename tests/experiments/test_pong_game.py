from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opc_ros.experiments.pong.emulator import ACTIONS, BALL, BALL_BEFORE, INWARD, PADDLES, PongGame, make_starts
from opc_ros.experiments.pong.playing import CHOICES, make_policy, open_games, play_points
from opc_ros.policies.action_space import ActionChoices
from tests.experiments.pong_players import make_follower

STAY, UP, DOWN = range(3)


@pytest.fixture(scope="module")
def games() -> tuple[PongGame, ...]:
    return open_games(4)


@pytest.fixture(scope="module")
def starts() -> tuple[Any, ...]:
    return make_starts(12, seed=3)


def rows_of_own_paddle(image: np.ndarray) -> float:
    right = image[:, 30:, PADDLES].sum(axis=1).astype(float)
    return float((right * np.arange(40)).sum() / right.sum())


def play(game: PongGame, start: Any, stickiness: float, seed: int, count: int = 12) -> list[np.ndarray]:
    game.begin(start, stickiness, np.random.default_rng(seed))
    images = [game.image]
    for index in range(count):
        game.decide((UP, DOWN, STAY)[index // 2 % 3])
        images.append(game.image)
    return images


def test_the_same_seed_plays_the_same_point_and_another_seed_sticks_elsewhere(
    games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    first, again = play(games[0], starts[0], 0.25, 5), play(games[1], starts[0], 0.25, 5)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, play(games[0], starts[0], 0.25, 6))
    plain = play(games[0], starts[0], 0.0, 5)
    assert not np.array_equal(first, plain)
    np.testing.assert_array_equal(plain, play(games[2], starts[0], 0.0, 6))


def test_up_moves_the_own_paddle_up_the_image_and_down_moves_it_down(
    games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    for action, sign in ((UP, -1), (DOWN, 1)):
        games[0].begin(starts[2], 0.0, np.random.default_rng(0))
        before = rows_of_own_paddle(games[0].image)
        games[0].decide(action)
        games[0].decide(action)
        assert sign * (rows_of_own_paddle(games[0].image) - before) > 0.5


def test_an_image_shows_the_ball_now_and_one_decision_ago(games: tuple[PongGame, ...], starts: tuple[Any, ...]) -> None:
    images = play(games[0], starts[1], 0.0, 0)
    for before, after in itertools.pairwise(images):
        np.testing.assert_array_equal(after[:, :, BALL_BEFORE], before[:, :, BALL])
    # The ball is 2 by 4 screen pixels, a cell 4 by 4: half a cell is ball.
    assert images[0][:, :, BALL].sum() == pytest.approx(255 / 2, abs=3)


def test_an_image_shows_the_paddles_of_one_decision_ago_closer_to_the_middle(
    games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    """The screen's paddles are 4 pixels wide, from columns 16 and 140: cells 4 and 35."""
    images = play(games[0], starts[1], 0.0, 0)
    for before, after in itertools.pairwise(images):
        for now, drawn in ((4, 4 + INWARD), (35, 35 - INWARD)):
            np.testing.assert_array_equal(after[:, drawn, PADDLES], before[:, now, PADDLES])
    assert any(image[:, 35, PADDLES].tolist() != image[:, 25, PADDLES].tolist() for image in images)
    assert set(np.nonzero(images[-1][:, :, PADDLES].any(axis=0))[0].tolist()) == {4, 14, 25, 35}


def test_what_was_played_before_does_not_stick_to_a_new_point(
    games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    """With all actions sticking, a point begins with the joystick at rest, whatever was held before it."""
    seen = []
    for action in (UP, DOWN):
        games[0].begin(starts[2], 0.0, np.random.default_rng(0))
        games[0].decide(action)
        games[0].begin(starts[2], 1.0, np.random.default_rng(0))
        games[0].decide(action)
        seen.append(games[0].image)
    np.testing.assert_array_equal(seen[0], seen[1])


def test_starts_differ_and_follow_from_their_seed(games: tuple[PongGame, ...], starts: tuple[Any, ...]) -> None:
    def images(states: tuple[Any, ...]) -> list[bytes]:
        seen = []
        for state in states:
            games[0].begin(state, 0.0, np.random.default_rng(0))
            seen.append(games[0].image.tobytes())
        return seen

    assert images(make_starts(3, seed=3)) == images(starts)[:3]
    assert len(set(images(starts))) >= 10


def test_following_the_ball_wins_points_and_fleeing_it_loses_all(
    tmp_path: Path, games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    follower, fleer = make_follower(tmp_path, offset=-0.5), make_follower(tmp_path, "fleer", gain=-1.0)
    followed = list(play_points(games, make_policy(follower), starts, 0.0, 1))
    fled = list(play_points(games, make_policy(fleer), starts, 0.0, 1))
    assert sorted(point.index for point in followed) == list(range(12))
    assert sum(point.is_won for point in followed) >= 3
    assert not any(point.is_won for point in fled)
    assert np.mean([len(p.actions) for p in followed]) > 2 * np.mean([len(p.actions) for p in fled])


def test_points_are_the_same_however_many_games_play_side_by_side(
    tmp_path: Path, games: tuple[PongGame, ...], starts: tuple[Any, ...]
) -> None:
    policy = make_policy(make_follower(tmp_path))
    outcomes = []
    for count in (1, 3):
        points = sorted(play_points(games[:count], policy, starts[:5], 0.25, 7), key=lambda point: point.index)
        outcomes.append([(point.is_won, point.actions.tolist()) for point in points])
    assert outcomes[0] == outcomes[1]


def test_the_choices_of_a_candidate_are_the_actions_of_the_game(tmp_path: Path) -> None:
    space = make_follower(tmp_path).manifest.input.action_space
    assert isinstance(space, ActionChoices)
    assert space == CHOICES
    np.testing.assert_array_equal(space.to_array(), list(ACTIONS))
