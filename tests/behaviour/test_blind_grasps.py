from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.arms.limits import WorkspaceBox
from opc_ros.behaviour.blind_grasps import BlindGrasps, BlindSettings
from opc_ros.grasp import ActionBounds, GraspAction, Observation, ToolState

BOX = WorkspaceBox(low_m=(0.45, -0.15, 0.02), high_m=(0.75, 0.15, 0.34))
STRAIGHT = BlindSettings(jitter_m=0.0, stray=0.0)


def play(policy: BlindGrasps, seed: int, *, blocked_at_m: float = 0.0) -> tuple[list[GraspAction], list[ToolState]]:
    """An arm that does what it is told, unless something is below it."""
    tool = ToolState(0.6, 0.0, 0.22, 0.0, 0.08)
    actions, tools = [], [tool]
    policy.begin(seed)
    for _ in range(40):
        action = policy.choose(Observation(stamp_ns=0, image=np.zeros((8, 8, 3), np.uint8), tool=tool))
        actions.append(action)
        if action.terminate:
            return actions, tools
        dx, dy, dz = action.displacement_m
        tool = dataclasses.replace(
            tool,
            x_m=tool.x_m + dx,
            y_m=tool.y_m + dy,
            z_m=max(tool.z_m + dz, blocked_at_m),
            yaw_rad=tool.yaw_rad + action.rotation_rad,
            aperture_m=0.0 if action.close_gripper else 0.08 if action.open_gripper else tool.aperture_m,
        )
        tools.append(tool)
    raise AssertionError("never ended")


def test_an_attempt_opens_goes_there_closes_low_lifts_and_ends():
    actions, tools = play(BlindGrasps(BOX, settings=STRAIGHT), seed=3)
    closing = next(i for i, action in enumerate(actions) if action.close_gripper)
    assert actions[0].open_gripper
    assert tools[closing].z_m <= 0.02 + 0.03 + 0.005
    assert tools[closing + 2].z_m > tools[closing].z_m + 0.03
    assert [action.terminate for action in actions] == [False] * (closing + 2) + [True]


def test_the_same_seed_does_the_same_and_another_something_else():
    policy = BlindGrasps(BOX)
    assert play(policy, 5) == play(policy, 5)
    assert play(policy, 5) != play(policy, 6)


def test_grasps_are_spread_over_the_box_but_for_its_margin():
    policy = BlindGrasps(BOX, settings=STRAIGHT)
    places = []
    for seed in range(200):
        actions, tools = play(policy, seed)
        places.append(tools[next(i for i, action in enumerate(actions) if action.close_gripper)])
    for axis, low, high in (("x_m", 0.49, 0.71), ("y_m", -0.11, 0.11)):
        values = [getattr(tool, axis) for tool in places]
        assert min(values) >= low - 0.011
        assert max(values) <= high + 0.011
        # A tenth of the range from either end; 200 draws miss neither.
        assert min(values) < low + 0.1 * (high - low) + 0.011
        assert max(values) > high - 0.1 * (high - low) - 0.011


def test_an_arm_that_stands_on_something_closes_there():
    actions, tools = play(BlindGrasps(BOX, settings=STRAIGHT), seed=3, blocked_at_m=0.09)
    closing = next(i for i, action in enumerate(actions) if action.close_gripper)
    assert tools[closing].z_m == pytest.approx(0.09)


def test_every_action_keeps_its_bounds():
    bounds = ActionBounds()
    for seed in range(100):
        actions, _ = play(BlindGrasps(BOX, bounds), seed)
        assert all(bounds.violations(action) == () for action in actions)
        assert all(abs(action.rotation_rad) <= math.pi / 4 + 1e-9 for action in actions)


def test_it_needs_no_simulator_and_plays_on_any_arm():
    arm, policy = ScriptedArm(), BlindGrasps(BOX)
    policy.begin(1)
    seen = arm.begin(1)
    for _ in range(60):
        action = policy.choose(seen)
        arm.apply(action)
        if action.terminate:
            return
        seen = arm.observe()
    raise AssertionError("never ended")
