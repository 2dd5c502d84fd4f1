"""Actions, frames and episodes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.errors import EpisodeError
from opc_ros.grasp import ActionBounds, GraspAction, GraspStep, ToolState

TOOL = ToolState(x_m=0.5, y_m=0.0, z_m=0.2, yaw_rad=0.0, aperture_m=0.08)


def make_step(stamp_ns: int, action: GraspAction | None = None) -> GraspStep:
    frame = Frame(stamp_ns=stamp_ns, encoding="rgb8", data=bytes(12), width=2, height=2)
    return GraspStep(frame=frame, tool=TOOL, action=action or GraspAction())


def test_action_vector_has_the_documented_order() -> None:
    action = GraspAction(
        displacement_m=(0.01, -0.02, 0.03), rotation_rad=math.pi / 6, close_gripper=True, terminate=True
    )
    expected = [0.01, -0.02, 0.03, 0.5, math.sqrt(3) / 2, 0, 1, 1]
    np.testing.assert_allclose(action.to_vector(), expected, rtol=1e-6)


@given(
    st.tuples(*[st.floats(-0.1, 0.1)] * 3),
    st.floats(-3.1, 3.1),
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.booleans(),
)
def test_action_survives_its_vector(
    move: tuple[float, float, float], turn: float, grip: tuple[bool, bool], end: bool
) -> None:
    action = GraspAction(move, turn, open_gripper=grip[0], close_gripper=grip[1], terminate=end)
    back = GraspAction.from_vector(action.to_vector())
    np.testing.assert_allclose(back.displacement_m, move, atol=1e-8)
    assert back.rotation_rad == pytest.approx(turn, abs=1e-6)
    assert (back.open_gripper, back.close_gripper, back.terminate) == (*grip, end)


def test_both_gripper_flags_up_means_the_stronger_one() -> None:
    assert GraspAction.from_vector(np.array([0, 0, 0, 0, 1, 0.7, 0.9, 0])).close_gripper
    assert GraspAction.from_vector(np.array([0, 0, 0, 0, 1, 0.9, 0.7, 0])).open_gripper


@pytest.mark.parametrize(
    ("vector", "complaint"),
    [
        (np.zeros(6), "action has 6 numbers, expected 8"),
        (np.array([np.nan, 0, 0, 0, 1, 0, 0, 0]), "expected finite"),
    ],
)
def test_bad_vector_is_named(vector: np.ndarray, complaint: str) -> None:
    with pytest.raises(EpisodeError, match=complaint):
        GraspAction.from_vector(vector)


def test_action_that_opens_and_closes_is_refused() -> None:
    with pytest.raises(EpisodeError, match="opens and closes"):
        GraspAction(open_gripper=True, close_gripper=True)


def test_bounds_name_what_is_outside_and_clamp_it() -> None:
    bounds = ActionBounds(displacement_m=0.05, rotation_rad=0.5)
    action = GraspAction(displacement_m=(0.02, -0.2, 0.0), rotation_rad=0.9, close_gripper=True)
    assert bounds.violations(action) == (
        "dy is -0.2000 m, allowed +-0.0500",
        "rotation is +0.9000 rad, allowed +-0.5000",
    )
    clamped = bounds.clamp(action)
    assert clamped == GraspAction(displacement_m=(0.02, -0.05, 0.0), rotation_rad=0.5, close_gripper=True)
    assert bounds.violations(clamped) == ()


def test_jpeg_keeps_a_plain_image() -> None:
    image = np.full((16, 24, 3), (200, 50, 100), dtype=np.uint8)
    decoded = Frame.from_image(image, stamp_ns=1).decode()
    assert decoded.shape == (16, 24, 3)
    assert np.abs(decoded.astype(int) - image).max() <= 3


def test_raw_frames_come_out_as_rgb() -> None:
    assert Frame(1, "bgr8", bytes([1, 2, 3]), 1, 1).decode().tolist() == [[[3, 2, 1]]]
    assert Frame(1, "mono8", bytes([7, 9]), 2, 1).decode().tolist() == [[[7, 7, 7], [9, 9, 9]]]


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (Frame(5, "jpeg", b"no image"), "frame at 5 ns: 8 bytes are no JPEG or PNG image"),
        (Frame(5, "jpeg", b""), "0 bytes"),
        (Frame(5, "rgb8", bytes(5), 2, 1), "5 bytes, expected 2x1x3"),
        (Frame(5, "yuv422", bytes(4), 2, 1), "'yuv422', expected jpeg"),
    ],
)
def test_a_frame_that_is_no_image_is_named(frame: Frame, complaint: str) -> None:
    with pytest.raises(EpisodeError, match=complaint):
        frame.decode()


def test_episode_needs_steps_in_order_with_terminate_last() -> None:
    episode = Episode("e", "arm1", "scripted", (make_step(1), make_step(2, GraspAction(terminate=True))))
    assert episode.started_ns == 1
    assert episode.actions().shape == (2, 8)
    with pytest.raises(EpisodeError, match="has no steps"):
        Episode("e", "arm1", "scripted", ())
    with pytest.raises(EpisodeError, match="frame of step 1 is at 1 ns, expected after 1 ns"):
        Episode("e", "arm1", "scripted", (make_step(1), make_step(1)))
    with pytest.raises(EpisodeError, match="step 0 terminates"):
        Episode("e", "arm1", "scripted", (make_step(1, GraspAction(terminate=True)), make_step(2)))


def test_label_has_value_and_source_or_neither() -> None:
    assert Label(is_success=True, source=LabelSource.PERSON, labeller="Ada").is_success
    with pytest.raises(EpisodeError, match="give both or neither"):
        Label(is_success=True)
    with pytest.raises(EpisodeError, match="give both or neither"):
        Label(source=LabelSource.PERSON)
