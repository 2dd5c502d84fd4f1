from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.errors import EpisodeError
from opc_ros.grasp import GraspAction, GraspStep, ToolState

pytestmark = pytest.mark.ros
convert = pytest.importorskip("opc_ros.ros.convert")

STAMP_NS = 1_794_800_000_123_456_789
metres = st.floats(-10, 10)
tools = st.builds(ToolState, metres, metres, metres, st.floats(-math.pi, math.pi), st.floats(0, 0.2))
actions = st.builds(
    GraspAction,
    st.tuples(metres, metres, metres),
    st.floats(-3.1, 3.1),
    close_gripper=st.booleans(),
    terminate=st.booleans(),
)


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_timestamps_keep_every_nanosecond(stamp_ns: int) -> None:
    assert convert.stamp_to_ns(convert.stamp_from_ns(stamp_ns)) == stamp_ns


@given(tools)
def test_tools_come_back_as_they_were(tool: ToolState) -> None:
    msg = convert.tool_to_msg(tool, STAMP_NS)
    assert convert.tool_from_msg(msg) == tool
    assert convert.stamp_to_ns(msg.header.stamp) == STAMP_NS


@given(tools, actions, st.none() | actions)
def test_steps_come_back_as_they_were_up_to_the_rounding_of_an_angle(
    tool: ToolState, action: GraspAction, sent: GraspAction | None
) -> None:
    frame = Frame(stamp_ns=STAMP_NS, encoding="jpeg", data=b"image")
    step = GraspStep(frame=frame, tool=tool, action=action, sent=sent)
    msg = convert.step_to_msg(step, robot="arm1", episode_id="e1", index=4, chosen_ns=STAMP_NS + 5)
    assert (msg.robot, msg.episode_id, msg.index, msg.is_clamped) == ("arm1", "e1", 4, sent is not None)
    assert convert.stamp_to_ns(msg.action.observation_stamp) == STAMP_NS
    assert convert.stamp_to_ns(msg.action.header.stamp) == STAMP_NS + 5
    assert convert.tool_from_msg(msg.tool) == tool
    for told, expected in ((msg.action, action), (msg.sent, sent or action)):
        got = convert.action_from_msg(told)
        np.testing.assert_allclose(got.to_vector(), expected.to_vector(), atol=1e-6)
        assert got.displacement_m == expected.displacement_m


@pytest.mark.parametrize(
    "frame",
    [
        Frame(STAMP_NS, "jpeg", bytes(range(256))),
        Frame(STAMP_NS, "png", b"\x89PNG"),
        Frame(STAMP_NS, "rgb8", bytes(range(24)), width=4, height=2),
        Frame(STAMP_NS, "mono8", bytes(range(8)), width=4, height=2),
    ],
)
def test_frames_keep_their_bytes(frame: Frame) -> None:
    assert convert.frame_from_msg(convert.frame_to_msg(frame)) == frame


def test_padding_at_the_end_of_raw_rows_is_cut_off() -> None:
    msg = convert.frame_to_msg(Frame(STAMP_NS, "mono8", b"abcdef", width=3, height=2))
    msg.step, msg.data = 4, b"abc.def."
    assert convert.frame_from_msg(msg).data == b"abcdef"


@pytest.mark.parametrize(
    ("text", "encoding"), [("jpeg", "jpeg"), ("jpg", "jpeg"), ("rgb8; jpeg compressed bgr8", "jpeg"), ("png", "png")]
)
def test_formats_of_image_transport_are_understood(text: str, encoding: str) -> None:
    msg = convert.frame_to_msg(Frame(STAMP_NS, "jpeg", b"x"))
    msg.format = text
    assert convert.frame_from_msg(msg).encoding == encoding


@pytest.mark.parametrize("text", ["", "tiff", "16UC1; compressedDepth png"])
def test_formats_that_cannot_be_used_are_named(text: str) -> None:
    msg = convert.frame_to_msg(Frame(STAMP_NS, "jpeg", b"x"))
    msg.format = text
    with pytest.raises(EpisodeError, match=f"compressed format {text!r}, expected jpeg or png"):
        convert.frame_from_msg(msg)


def test_raw_frames_of_wrong_size_or_encoding_are_named() -> None:
    msg = convert.frame_to_msg(Frame(STAMP_NS, "rgb8", bytes(24), width=4, height=2))
    msg.data = bytes(23)
    with pytest.raises(EpisodeError, match="23 bytes in rows of 12, expected 2 rows of at least 12"):
        convert.frame_from_msg(msg)
    msg.encoding = "bayer_rggb8"
    with pytest.raises(EpisodeError, match="encoding 'bayer_rggb8', expected rgb8, bgr8, mono8"):
        convert.frame_from_msg(msg)


@pytest.mark.parametrize(
    "label",
    [
        Label(),
        Label(True, LabelSource.EPISODE_END, "arm1"),
        Label(False, LabelSource.GRIPPER_WIDTH, "rule"),
        Label(True, LabelSource.PERSON, "Ann"),
        Label(False, LabelSource.IMPORT, ""),
    ],
)
def test_labels_come_back_as_they_were(label: Label) -> None:
    msg = convert.label_to_msg(label, "e1", revision=2, stamp_ns=STAMP_NS, note="seen")
    assert convert.label_from_msg(msg) == label
    assert (msg.episode_id, msg.revision, msg.note) == ("e1", 2, "seen")


@pytest.mark.parametrize(
    ("value", "source", "complaint"),
    [(3, 1, "value 3, expected"), (2, 9, "source 9, expected 0 to 4"), (2, 0, "give both or neither")],
)
def test_labels_that_make_no_sense_are_refused(value: int, source: int, complaint: str) -> None:
    with pytest.raises(EpisodeError, match=complaint):
        convert.label_from_fields(value, source, "ann")


@pytest.mark.parametrize(("sin", "cos"), [(0.0, 0.0), (math.nan, 1.0), (0.0, math.inf)])
def test_a_rotation_that_is_no_rotation_is_refused(sin: float, cos: float) -> None:
    msg = convert.action_to_msg(GraspAction(), robot="", episode_id="", index=0, observed_ns=0, chosen_ns=0)
    msg.rotation_sin, msg.rotation_cos = sin, cos
    with pytest.raises(EpisodeError, match="rotation"):
        convert.action_from_msg(msg)
