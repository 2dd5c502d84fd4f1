"""Scripted policies aim well, act within bounds, and lifting shows what they hold."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from opc_ros.errors import ConfigError
from opc_ros.grasp import ActionBounds, GraspAction
from opc_ros.playing import record_episode
from sim_bridge.behaviour import BEHAVIOURS, BehaviourPolicy, aim_at, find_behaviour
from sim_bridge.twin_arm import TwinArm
from sim_bridge.worlds import WORLDS, find_world

SURE = dataclasses.replace(
    BEHAVIOURS["scripted"], aim_spread_m=0.0, depth_spread_m=0.0, yaw_spread_rad=0.0, epsilon=0.0
)


def box(x_m: float, y_m: float, half_x_m: float, half_y_m: float) -> np.ndarray:
    """Corners of a 4 cm high block on the floor."""
    signs = itertools.product((-1, 1), (-1, 1), (0.01, 0.05))
    return np.array([(x_m + i * half_x_m, y_m + j * half_y_m, z) for i, j, z in signs])


def test_aims_at_the_middle_of_a_block_across_its_narrow_side() -> None:
    long_in_x = box(0.6, 0.1, half_x_m=0.04, half_y_m=0.01)
    aim = aim_at(long_in_x, long_in_x)
    # At yaw 0 the fingers close along base y.
    assert (aim.x_m, aim.y_m, aim.z_m, aim.yaw_rad) == pytest.approx((0.6, 0.1, 0.03, 0.0))
    long_in_y = box(0.6, 0.1, half_x_m=0.01, half_y_m=0.04)
    assert abs(aim_at(long_in_y, long_in_y).yaw_rad) == pytest.approx(math.pi / 2)


def test_aims_around_a_neighbour_that_stands_where_a_finger_would_come_down() -> None:
    cube = box(0.6, 0.0, half_x_m=0.015, half_y_m=0.015)
    neighbour = box(0.6, 0.045, half_x_m=0.004, half_y_m=0.004)
    aim = aim_at(cube, np.concatenate([cube, neighbour]))
    assert abs(aim.yaw_rad) > math.radians(15)
    assert aim.obstacles == 0


def test_a_sure_hand_holds_what_it_closes_on_and_drops_what_it_lets_go() -> None:
    arm = TwinArm(find_world("train"), image_size=16)
    policy = BehaviourPolicy(SURE, arm.world)
    episodes = [record_episode(arm, policy, seed, episode_id=str(seed), object_set="train") for seed in range(4)]
    assert sum(bool(episode.label.is_success) for episode in episodes) >= 3
    held = next(seed for seed, episode in enumerate(episodes) if episode.label.is_success)
    record_episode(arm, policy, held, episode_id="again", object_set="train")
    assert arm.world.is_holding()
    arm.apply(GraspAction(open_gripper=True))
    arm.world.advance(0.5)
    assert not arm.world.is_holding()
    arm.close()


def test_random_actions_stay_within_bounds_and_use_every_kind() -> None:
    arm = TwinArm(find_world("train"), image_size=16)
    policy = BehaviourPolicy(dataclasses.replace(SURE, epsilon=1.0), arm.world)
    observation = arm.begin(0)
    policy.begin(0)
    actions = [policy.choose(observation) for _ in range(300)]
    arm.close()
    assert all(ActionBounds().violations(action) == () for action in actions)
    assert 30 < sum(action.open_gripper for action in actions) < 90
    assert 30 < sum(action.close_gripper for action in actions) < 90
    assert 10 < sum(action.terminate for action in actions) < 60


@pytest.mark.parametrize(("name", "fewest", "most"), [("scripted", 2, 7), ("mostly_random", 0, 1)])
def test_policies_succeed_about_as_often_as_they_should(name: str, fewest: int, most: int) -> None:
    """A smoke test over eight seeds; `python -m sim_bridge.measure_behaviour` measures over hundreds."""
    spec = find_behaviour(name)
    arm = TwinArm(find_world(spec.tuned_in), image_size=16)
    policy = BehaviourPolicy(spec, arm.world)
    episodes = [record_episode(arm, policy, seed, episode_id=str(seed), object_set="train") for seed in range(8)]
    arm.close()
    assert fewest <= sum(bool(episode.label.is_success) for episode in episodes) <= most
    assert all(len(episode.steps) <= 20 for episode in episodes)


def test_every_policy_is_tuned_in_a_known_world() -> None:
    assert {spec.tuned_in for spec in BEHAVIOURS.values()} <= set(WORLDS)
    with pytest.raises(ConfigError, match="'lucky': expected one of scripted, mostly_random, weaker, better"):
        find_behaviour("lucky")
