from __future__ import annotations

import pytest

from opc_ros.episode import LabelSource
from opc_ros.grasp import GraspAction
from opc_ros.recording.labels import GripperWidthRule

RULE = GripperWidthRule(held_from_m=0.005, held_to_m=0.07)
MOVE, CLOSE, OPEN = GraspAction(), GraspAction(close_gripper=True), GraspAction(open_gripper=True)


@pytest.mark.parametrize(
    ("actions", "apertures_m", "is_success"),
    [
        ([MOVE, CLOSE, MOVE], [0.08, 0.08, 0.030], True),
        ([MOVE, CLOSE, MOVE], [0.08, 0.08, 0.005], True),
        ([MOVE, CLOSE, MOVE], [0.08, 0.08, 0.004], False),  # the fingers met
        ([MOVE, CLOSE, MOVE], [0.08, 0.08, 0.071], False),  # it never closed
        ([CLOSE, MOVE, MOVE], [0.08, 0.03, 0.001], False),  # lost while lifting
        ([CLOSE, OPEN, MOVE], [0.08, 0.03, 0.03], False),  # let go
        ([MOVE, MOVE], [0.08, 0.03], False),  # never told to close
        ([MOVE, CLOSE], [0.08, 0.03], None),  # not measured since then
    ],
)
def test_the_gripper_width_after_the_last_closing_tells_whether_something_is_held(
    actions: list[GraspAction], apertures_m: list[float], is_success: bool | None
) -> None:
    label = RULE.label(actions, apertures_m)
    assert label.is_success is is_success
    assert label.source is (LabelSource.NONE if is_success is None else LabelSource.GRIPPER_WIDTH)


def test_the_label_names_the_range_it_was_made_with() -> None:
    assert RULE.label([CLOSE, MOVE], [0.08, 0.03]).labeller == "held at 5 to 70 mm"
