"""Episodes written before a message definition changed stay readable."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from mcap.writer import CompressionType
from mcap_ros2.writer import Writer

from opc_ros.errors import EpisodeDamaged
from opc_ros.store import schemas
from opc_ros.store.episode_reading import read_whole
from tests.store.grasps import SUCCESS, make_episode

FORMAT_NOTE = {"format_version": "1", "health": '["late"]'}


def without_lines(name: str, *beginnings: str) -> str:
    """A definition as it was before some fields were added."""
    lines = schemas.schema(name).decode().splitlines()
    kept = [line for line in lines if not line.startswith(beginnings)]
    assert len(kept) == len(lines) - len(beginnings)
    return "\n".join(kept)


def stamp(stamp_ns: int) -> dict[str, int]:
    return {"sec": stamp_ns // 1_000_000_000, "nanosec": stamp_ns % 1_000_000_000}


def head(stamp_ns: int) -> dict[str, Any]:
    return {"stamp": stamp(stamp_ns), "frame_id": "base"}


def action_fields(step: Any, index: int) -> dict[str, Any]:
    x, y, z = step.action.displacement_m
    return {
        "header": head(step.frame.stamp_ns),
        "robot": "left",
        "episode_id": "e1",
        "index": index,
        "observation_stamp": stamp(step.frame.stamp_ns),
        "displacement_m": {"x": x, "y": y, "z": z},
        "rotation_sin": math.sin(step.action.rotation_rad),
        "rotation_cos": math.cos(step.action.rotation_rad),
        "open_gripper": False,
        "close_gripper": step.action.close_gripper,
        "terminate": step.action.terminate,
    }


def event_fields(kind: int) -> dict[str, Any]:
    return {
        "header": head(1),
        "robot": "left",
        "episode_id": "e1",
        "kind": kind,
        "behaviour_policy": "scripted",
        "object_set": "cups",
        "permit_id": "",
        "label": 2 if kind == 1 else 0,
        "label_source": 3 if kind == 1 else 0,
        "labeller": "ada" if kind == 1 else "",
        "reason": "",
    }


def write_old_episode(*, step_count: int = 3, step_robot: str = "left") -> bytes:
    """With events that do not say how many steps there were, and with a step whose fields are in another order."""
    sink = io.BytesIO()
    writer = Writer(sink, compression=CompressionType.NONE)
    event = writer.register_msgdef(schemas.EPISODE_EVENT, without_lines(schemas.EPISODE_EVENT, "uint32 steps"))
    image_type = writer.register_msgdef(schemas.COMPRESSED_IMAGE, schemas.schema(schemas.COMPRESSED_IMAGE).decode())
    old_step = without_lines(schemas.GRASP_STEP, "ToolState tool") + "\n"
    old_step = old_step.replace("uint32 index               #", "ToolState tool\nuint32 index               #", 1)
    step = writer.register_msgdef(schemas.GRASP_STEP, old_step)
    label = writer.register_msgdef(schemas.LABEL, without_lines(schemas.LABEL, "string note"))
    writer.write_message("/left/episode_event", event, event_fields(0), log_time=1)
    for index, taken in enumerate(make_episode().steps[:step_count]):
        at = taken.frame.stamp_ns
        image = {"header": head(at), "format": "jpeg", "data": taken.frame.data}
        writer.write_message("/left/camera", image_type, image, log_time=at)
        tool = taken.tool
        fields = {
            "header": head(at),
            "robot": step_robot,
            "episode_id": "e1",
            "tool": {
                "header": head(at),
                "position_m": {"x": tool.x_m, "y": tool.y_m, "z": tool.z_m},
                "yaw_rad": tool.yaw_rad,
                "aperture_m": tool.aperture_m,
            },
            "index": index,
            "action": action_fields(taken, index),
            "is_clamped": False,
            "sent": action_fields(taken, index),
        }
        writer.write_message("/left/grasp_step", step, fields, log_time=at)
    writer.write_message("/left/episode_event", event, event_fields(1), log_time=9)
    fields = {"episode_id": "e1", "value": 2, "source": 3, "labeller": "ada", "revision": 0, "stamp": stamp(9)}
    writer.write_message("/left/label", label, fields, log_time=9)
    writer.add_metadata("opc_ros.episode", FORMAT_NOTE)
    writer.finish()
    return sink.getvalue()


def test_an_episode_of_older_definitions_reads_as_a_new_one_does() -> None:
    whole = read_whole(write_old_episode(), where="e1")
    expected = make_episode()
    assert (whole.header.id, whole.header.robot, whole.header.object_set) == ("e1", "left", "cups")
    assert (whole.label, whole.health) == (SUCCESS, ("late",))
    assert [step.frame.data for step in whole.steps] == [step.frame.data for step in expected.steps]
    assert [step.tool for step in whole.steps] == [step.tool for step in expected.steps]
    for found, wanted in zip(whole.steps, expected.steps, strict=True):
        assert found.action.displacement_m == wanted.action.displacement_m
        assert found.action.rotation_rad == pytest.approx(wanted.action.rotation_rad)
        assert found.action.terminate == wanted.action.terminate


def test_steps_of_another_robot_are_noticed_there_too() -> None:
    with pytest.raises(EpisodeDamaged, match="robot 'right'"):
        read_whole(write_old_episode(step_robot="right"), where="e1")


def test_comments_do_not_make_a_definition_another() -> None:
    data = schemas.schema(schemas.LABEL)
    assert schemas.is_current(schemas.LABEL, data.replace(b"# a person's name", b"# who"))
    assert not schemas.is_current(schemas.LABEL, data.replace(b"string note", b"string remark"))
    assert not schemas.is_current("nobody/msg/Nothing", data)
