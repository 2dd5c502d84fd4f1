"""Actions, tool poses and frames of a recording are matched by time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from opc_ros.grasp import GraspAction
from opc_ros.store import Store
from opc_ros.store.bag_import import Imported, import_bag
from opc_ros.store.bag_mapping import ActionMapping, BagMapping
from opc_ros.store.bag_timeline import combine_actions
from tests.store.bags import SECOND, TOOL, compressed, image, pose, record, stamped, twist, vector

WITH_ACTIONS = BagMapping(
    robot="arm1",
    behaviour_policy="teleop",
    camera="/camera",
    tool=TOOL,
    action=ActionMapping(topic="/action", dx_m="x", dy_m="y", dz_m="z"),
)


def test_actions_faster_than_the_camera_are_joined_to_the_frame_before_them(store: Store, tmp_path: Path) -> None:
    """Two frames a second apart, an action every quarter: 4 and 3 of 1 mm each, and one before the first frame."""
    messages: list[tuple[float, str, object]] = [(1.0, "/action", vector(9, 9, 9)), (1.05, "/tool", pose(0.5, 0.0))]
    messages += [(1.1, "/camera", compressed(10)), (2.0, "/tool", pose(0.6, 0.0)), (2.1, "/camera", compressed(20))]
    messages += [(1.2 + 0.25 * index, "/action", vector(0.001, 0.0, -0.001)) for index in range(7)]
    mapping = dataclasses.replace(WITH_ACTIONS, frame_age_s=1.0)
    done = import_bag(store, record(tmp_path / "fast", sorted(messages, key=lambda item: item[0])), mapping)
    assert done == Imported(tmp_path / "fast", ("fast",), ())
    first, second = store.read("fast").steps
    assert first.action.displacement_m == pytest.approx((0.004, 0.0, -0.004))
    assert second.action.displacement_m == pytest.approx((0.003, 0.0, -0.003))
    assert (first.frame.data, second.frame.data) == (image(10).data, image(20).data)
    assert store.find("fast").health[1:] == (
        "1 actions before the first frame left out",
        "up to 4 actions between two frames joined into one",
    )


def test_an_action_long_after_the_newest_frame_is_refused(store: Store, tmp_path: Path) -> None:
    messages = [(1.0, "/tool", pose(0.5, 0.0)), (1.1, "/camera", compressed(1)), (1.7, "/action", vector(0, 0, 0))]
    done = import_bag(store, record(tmp_path / "late", messages), WITH_ACTIONS)
    assert done.skipped == ("late: action at 1700000000 ns has no frame within 0.5 s before it",)


def test_a_tool_pose_just_after_its_frame_counts_and_the_nearest_is_taken(store: Store, tmp_path: Path) -> None:
    messages = [
        (1.0, "/camera", compressed(1)),
        (1.01, "/tool", pose(0.5, 0.0)),
        (1.02, "/action", vector(0.01, 0, 0)),
        (1.6, "/tool", pose(0.7, 0.0)),
        (1.9, "/camera", compressed(2)),
        (1.95, "/tool", pose(0.8, 0.0)),
        (2.0, "/action", vector(0.02, 0, 0)),
    ]
    import_bag(store, record(tmp_path / "after", messages), WITH_ACTIONS)
    assert [step.tool.x_m for step in store.read("after").steps] == [0.5, 0.8]


def test_matching_by_timestamp_puts_late_messages_where_they_belong(store: Store, tmp_path: Path) -> None:
    """The pose of 1.0 s and the image of 1.0 s arrive long after the action that followed them."""
    messages = [
        (2.0, "/tool", stamped(pose(0.5, 0.0), 1.0)),
        (2.1, "/action", stamped(twist(0.01), 1.1)),
        (5.0, "/camera", stamped(compressed(7), 1.0)),
    ]
    mapping = dataclasses.replace(
        WITH_ACTIONS,
        clock="stamp",
        action=ActionMapping(topic="/action", dx_m="twist.linear.x", dy_m="twist.linear.y", dz_m="twist.linear.z"),
    )
    import_bag(store, record(tmp_path / "late", messages), mapping)
    (step,) = store.read("late").steps
    assert (step.frame.stamp_ns, step.action.displacement_m) == (SECOND, (0.01, 0.0, 0.0))


def test_the_last_word_about_the_gripper_counts_when_actions_are_joined() -> None:
    joined = combine_actions(
        [
            GraspAction(rotation_rad=0.2, close_gripper=True),
            GraspAction(rotation_rad=0.3),
            GraspAction(open_gripper=True, terminate=True),
        ]
    )
    assert joined == GraspAction(rotation_rad=0.5, open_gripper=True, terminate=True)
