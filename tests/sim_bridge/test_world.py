"""A world depends only on its seed, keeps its limits, and knows by physics what it holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from opc_ros.arms.kinematics import ToolPose
from opc_ros.errors import ArmError, ConfigError
from sim_bridge.world import World
from sim_bridge.worlds import find_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(find_world("train"), image_size=48) as world:
        yield world


def test_starts_at_home_with_objects_in_the_tray(world: World) -> None:
    world.lay_out(0)
    tool = world.tool_state()
    assert (tool.x_m, tool.y_m, tool.z_m) == pytest.approx((0.60, 0.0, 0.22), abs=1e-3)
    assert tool.aperture_m == pytest.approx(0.08, abs=1e-3)
    for corners in world.objects_base():
        assert np.abs(corners.mean(axis=0)[:2] - (0.6, 0.0)).max() < 0.15
        assert corners[:, 2].min() > 0.0
    assert not world.is_holding()


@pytest.mark.parametrize("name", ["train", "train_heavy", "pseudo_real"])
def test_the_same_seed_gives_the_same_pixels_whatever_came_before(name: str) -> None:
    with World(find_world(name), image_size=48) as used, World(find_world(name), image_size=48) as fresh:
        for seed in (8, 9):
            used.lay_out(seed)
            used.command_joints(used.kinematics.solve(ToolPose(0.62, 0.02, 0.03, 0.3)))
            used.advance(1.0)
        for world in (used, fresh):
            world.lay_out(3)
        images = [world.render() for world in (used, fresh)]
        used.lay_out(4)
        assert np.array_equal(*images)
        assert not np.array_equal(used.render(), images[0])


def test_joints_go_where_they_are_sent_and_no_faster_than_the_datasheet(world: World) -> None:
    world.lay_out(0)
    goal = world.joint_positions_rad() + np.array([1.2, -0.3, 0.2, 0.5, 0.3, 0.4, -1.5])
    world.command_joints(goal)
    fastest = np.zeros(7)
    for _ in range(80):
        world.advance(0.025)
        fastest = np.maximum(fastest, np.abs(world.joint_velocities_rad_s()))
    np.testing.assert_allclose(world.joint_positions_rad(), goal, atol=2e-3)
    assert (fastest < world.kinematics.model.velocity_rad_s * 1.01).all()
    assert (fastest > world.kinematics.model.velocity_rad_s * 0.5).any(), "fast enough to test the limit"


def test_a_command_beyond_the_joint_limits_ends_at_them(world: World) -> None:
    world.lay_out(0)
    world.command_joints(np.array([9.0, 0.3, 0.0, -1.5, 0.0, 1.0, 0.0]))
    world.advance(3.0)
    assert world.joint_positions_rad()[0] == pytest.approx(np.radians(170.0), abs=5e-3)


def test_time_passes_in_whole_physics_steps(world: World) -> None:
    world.lay_out(0)
    for _ in range(10):
        world.advance(0.001)
    assert world.time_s == pytest.approx(2 / 240)  # 10 ms are 2.4 steps; the rest is owed


def test_pseudo_real_commands_arrive_late() -> None:
    with World(find_world("pseudo_real"), image_size=16) as late:
        late.lay_out(0)
        late.advance(0.2)
        start = late.joint_positions_rad()
        late.command_joints(start + 0.2)
        late.advance(0.025)
        assert np.abs(late.joint_positions_rad() - start).max() < 1e-3
        late.advance(1.5)
        np.testing.assert_allclose(late.joint_positions_rad(), start + 0.2, atol=5e-3)


def test_worlds_in_one_process_do_not_touch(world: World) -> None:
    world.lay_out(1)
    before = world.tool_state()
    with World(find_world("test"), image_size=16) as other:
        other.lay_out(2)
        other.command_joints(np.zeros(7))
        other.advance(0.5)
    assert world.tool_state() == before


def test_refuses_a_command_that_is_no_joint_vector(world: World) -> None:
    with pytest.raises(ArmError, match="expected 7 finite angles"):
        world.command_joints(np.array([0.0, np.nan, 0.0, 0.0, 0.0, 0.0, 0.0]))


def test_a_closed_world_says_so() -> None:
    world = World(find_world("train"), image_size=16)
    world.close()
    world.close()
    with pytest.raises(ArmError, match="world train: closed"):
        world.lay_out(0)


def test_an_unknown_world_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'mars': expected one of train, test, held_out, sealed, bars, train_mild"):
        find_world("mars")
