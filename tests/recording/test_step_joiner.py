from __future__ import annotations

import pytest

from opc_ros.grasp import GraspAction, ToolState
from opc_ros.recording.health import HealthFinding
from opc_ros.recording.running_episode import StepReport
from opc_ros.recording.step_joiner import BareAction, StepJoiner

MS = 1_000_000
CLOSE = GraspAction(close_gripper=True)


def tool(x_m: float) -> ToolState:
    return ToolState(x_m, 0.0, 0.0, 0.0, 0.0)


def joiner(*stamps_ms: int) -> StepJoiner:
    made = StepJoiner(max_apart_s=0.05, timeout_s=1.0)
    for stamp_ms in stamps_ms:
        made.add_tool(stamp_ms * MS, tool(stamp_ms))
    return made


def act(made: StepJoiner, stamp_ms: int, *, came_ms: int = 0) -> None:
    made.add_action(BareAction("e1", 4, stamp_ms * MS, CLOSE), came_ms * MS)


@pytest.mark.parametrize(("wanted_ms", "expected_ms"), [(100, 100), (109, 100), (111, 120), (60, 100)])
def test_an_action_gets_the_tool_state_nearest_to_its_frame(wanted_ms: int, expected_ms: int) -> None:
    made = joiner(100, 120)
    act(made, wanted_ms)
    assert list(made.join(0)) == [StepReport("e1", 4, wanted_ms * MS, tool(expected_ms), CLOSE)]


def test_an_action_waits_for_a_later_tool_state_but_not_for_ever() -> None:
    made = joiner(100)
    act(made, 119)
    assert list(made.join(999 * MS)) == []
    made.add_tool(120 * MS, tool(120))
    assert [step.tool for step in made.join(999 * MS)] == [tool(120)]
    act(made, 130, came_ms=1000)
    assert list(made.join(1999 * MS)) == []
    assert [step.tool for step in made.join(2000 * MS)] == [tool(120)]


def test_a_tool_state_too_far_apart_is_not_taken_and_neither_is_none() -> None:
    made = joiner(100)
    act(made, 151)
    text = "step 4: the nearest tool state is 0.051 s apart from its frame, allowed 0.050"
    assert list(made.join(1000 * MS)) == [HealthFinding("steps", text)]
    made = joiner()
    act(made, 1)
    assert list(made.join(1000 * MS)) == [HealthFinding("steps", "step 4: no tool state came")]


def test_tool_states_from_before_a_clock_was_set_back_are_forgotten() -> None:
    made = joiner(1000, 1010, 100)
    act(made, 100)
    act(made, 1000)
    found = list(made.join(1000 * MS))
    assert isinstance(found[0], StepReport)
    assert found[0].tool == tool(100)
    assert isinstance(found[1], HealthFinding)
