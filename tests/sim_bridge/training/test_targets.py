from __future__ import annotations

import numpy as np
import pytest
import torch

from opc_ros.policies.architectures import build_network
from opc_ros.policies.input_spec import InputSpec
from sim_bridge.training.augmentation import ImageJitter, add_vain_closes, add_vain_stops, drop_features
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay
from sim_bridge.training.targets import make_targets
from tests.policies.making import SMALL

ROWS = np.arange(5)


def two_episodes() -> Replay:
    """A success of three steps, a failure of two."""
    return Replay(
        images=np.zeros((5, 32, 32, 3), np.uint8),
        tools=np.zeros((5, 5), np.float32),
        actions=np.zeros((5, 8), np.float32),
        lengths=np.array([3, 2]),
        success=np.array([True, False]),
    )


def test_monte_carlo_targets_are_discounted_outcomes() -> None:
    maker = make_targets(TrainingRecipe(targets="monte_carlo", gamma=0.5), two_episodes(), "cpu")
    assert maker.targets(ROWS, 0).tolist() == [0.25, 0.5, 1.0, 0.0, 0.0]


def test_bellman_targets_are_the_outcome_at_the_end_and_the_discounted_best_next_q_before() -> None:
    network = build_network("whole_image", InputSpec(32, 32), SMALL)
    torch.nn.init.zeros_(network.judge[-1].weight)
    torch.nn.init.constant_(network.judge[-1].bias, float(np.log(3.0)))  # Q is 3 / 4 everywhere
    maker = make_targets(TrainingRecipe(gamma=0.8, cem_samples=4), two_episodes(), "cpu")
    maker.follow(network)
    torch.nn.init.zeros_(network.judge[-1].bias)  # the lagging copy must not notice
    assert maker.targets(ROWS, 0) == pytest.approx([0.6, 0.6, 1.0, 0.6, 0.0])


def test_a_shut_gripper_that_closes_again_and_stops_is_vain_if_regrips_are_doubted() -> None:
    tools = np.tile(np.array([0.6, 0.0, 0.03, 0.0, 0.003], np.float32), (300, 1))  # low, and closed on nothing
    actions, targets = np.zeros((300, 8), np.float32), np.ones(300, np.float32)
    closing = []
    for with_regrips in (False, True):
        rng = np.random.default_rng(0)
        stops, wanted = add_vain_stops(
            tools, actions, targets, share=1.0, shut_m=0.012, rng=rng, with_regrips=with_regrips
        )
        assert not wanted.any()
        closing.append(stops[:, 6].mean())
    assert closing[0] == 0.0  # an 8 cm step from 3 cm stays below the clear height
    assert closing[1] == pytest.approx(1 / 3, abs=0.1)


def test_jitter_changes_a_copy_and_nothing_at_strength_zero() -> None:
    images = np.full((3, 32, 32, 3), 128, np.uint8)
    assert ImageJitter(0.0, 32, seed=0).apply(images, np.random.default_rng(0)) is images
    changed = ImageJitter(1.0, 32, seed=0).apply(images, np.random.default_rng(0))
    assert (images == 128).all()
    means = changed.mean(axis=(1, 2, 3))
    assert len(set(means.tolist())) == 3
    assert (np.abs(means - 128) < 128 * 0.36).all()  # exposure 1.25 times white balance 1.08


def test_jitter_moves_an_image_by_at_most_its_reach() -> None:
    images = np.zeros((40, 100, 100, 3), np.uint8)
    images[:, 50, 50] = 200
    changed = ImageJitter(1.0, 100, seed=0).apply(images, np.random.default_rng(0))
    rows, columns = np.array([np.unravel_index(image[:, :, 0].argmax(), (100, 100)) for image in changed]).T
    assert set(rows - 50) == set(columns - 50) == {-3, -2, -1, 0, 1, 2, 3}  # 3 % of 100 pixels


def test_dropped_features_keep_their_mean_and_leave_the_tool_alone() -> None:
    seen, tools = torch.ones(50, 1000), torch.ones(50, 5)
    dropped, same = drop_features((seen, tools), 0.75, np.random.default_rng(0))
    assert same is tools
    assert set(dropped.unique().tolist()) == {0.0, 4.0}
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.05)


def test_vain_stops_replace_only_what_is_known_to_fail() -> None:
    tools = np.tile(np.array([0.6, 0.0, 0.03, 0.0, 0.08], np.float32), (300, 1))
    tools[100:200, 4] = 0.03  # may hold something
    actions, targets = np.zeros((300, 8), np.float32), np.ones(300, np.float32)
    tools[0, 4] = 0.01  # closed on nothing
    rng = np.random.default_rng(0)
    stopped, zeros = add_vain_stops(tools, actions, targets, share=2 / 3, shut_m=0.012, rng=rng)
    assert (stopped[:100, 7] == 1).all()
    assert (zeros[:100] == 0).all()
    np.testing.assert_array_equal(stopped[100:], 0)
    np.testing.assert_array_equal(zeros[100:], 1)
    assert (stopped[:100, 6] == 0).all()  # 3 cm up and at most 8 cm more: closing might grasp something
    assert (np.abs(stopped[:, :3]) <= 0.08).all()
    assert (actions == 0).all()
    assert (targets == 1).all()


def test_vain_closes_happen_only_above_all_objects_with_an_open_gripper() -> None:
    heights = np.repeat(np.array([0.0, 0.2, 0.2], np.float32), 10)  # at most 8 cm from there
    tools = np.zeros((30, 5), np.float32)
    tools[:, 2], tools[:, 4] = heights, 0.08
    tools[20:, 4] = 0.03  # may hold something
    actions, targets = np.zeros((30, 8), np.float32), np.ones(30, np.float32)
    closed, zeros = add_vain_closes(tools, actions, targets, share=1.0, rng=np.random.default_rng(0))
    assert closed[:, 6].tolist() == [0.0] * 10 + [1.0] * 10 + [0.0] * 10
    assert zeros.tolist() == [1.0] * 10 + [0.0] * 10 + [1.0] * 10
    assert (targets == 1).all()
