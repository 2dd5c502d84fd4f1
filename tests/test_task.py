"""Tasks as data: sizes, names and bounds, and what does not fit."""

from __future__ import annotations

import math

import pytest

from opc_ros.errors import TaskError
from opc_ros.grasp import ActionBounds, GraspAction
from opc_ros.task import GRASPING, PONG, TASKS, find_task


def test_grasping_says_what_grasp_actions_are() -> None:
    action = GraspAction((0.01, -0.02, 0.03), 0.5, close_gripper=True)
    assert GRASPING.action_names == ("dx", "dy", "dz", "sin", "cos", "open", "close", "terminate")
    assert GRASPING.state_names == ("x", "y", "z", "yaw", "aperture")
    GRASPING.check_action(action.to_vector().tolist(), where="step 0")
    assert GRASPING.violations(action.to_vector().tolist()) == ()
    assert GRASPING.actions[0].high == ActionBounds().displacement_m


def test_a_number_outside_its_bounds_is_named_with_unit_and_bounds() -> None:
    vector = GraspAction((0.2, 0.0, 0.0)).to_vector().tolist()
    assert GRASPING.violations(vector) == ("dx is +0.2000 m, allowed -0.08 to 0.08",)
    assert PONG.violations((2.0,)) == ("move is +2.0000, allowed -1 to 1",)


def test_what_does_not_fit_a_task_is_refused_in_one_line() -> None:
    with pytest.raises(TaskError, match=r"^step 3: action has 1 numbers, expected 8 for grasping$"):
        GRASPING.check_action((1.0,), where="step 3")
    with pytest.raises(TaskError, match=r"^step 3: state has 5 numbers, expected 0 for pong$"):
        PONG.check_state((0.0,) * 5, where="step 3")
    with pytest.raises(TaskError, match=r"^step 3: action: move is nan, expected a finite number$"):
        PONG.check_action((math.nan,), where="step 3")
    with pytest.raises(TaskError, match=r"^episode e1: task is 'chess', expected one of grasping, pong$"):
        find_task("chess", where="episode e1")


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_every_task_is_whole(task: object) -> None:
    assert task in (GRASPING, PONG)
    for quantities in (task.actions, task.state):  # type: ignore[attr-defined]
        assert len({quantity.name for quantity in quantities}) == len(quantities)
        assert all(quantity.low < quantity.high for quantity in quantities)
