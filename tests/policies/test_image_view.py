"""A candidate that asks for it sees JPEG frames decoded no larger than needed, on an arm and in the scorer alike."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.episode import Frame
from opc_ros.errors import CandidateError, EpisodeError
from opc_ros.grasp import GraspStep, Observation
from opc_ros.policies.behaviour_identity import behaviour_id
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.image_view import ImageView, show_in_each
from opc_ros.policies.policy import load_policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.stack import find_stacks
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_candidate, make_episode

WHOLE, REDUCED = ImageView((48, 48)), ImageView((48, 48), is_reduced=True)


def see_noise(height: int, width: int) -> np.ndarray:
    """Coarse noise: averaged pixels and dropped frequencies give different bytes for it."""
    coarse = np.random.default_rng(0).integers(0, 256, (height // 3 + 1, width // 3 + 1, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)


def reduce(candidate: Candidate, folder: Path) -> Candidate:
    """The same weights under a manifest that asks for the other decoding."""
    spec = dataclasses.replace(candidate.manifest.input, image_decoding="reduced")
    return write_candidate(folder, dataclasses.replace(candidate.manifest, input=spec), candidate.artifact_bytes)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((59, 59), (59, 59)),  # 472 / 8
        ((60, 60), (118, 118)),  # 472 / 4
        ((96, 96), (118, 118)),
        ((119, 20), (236, 236)),  # the longer side decides
        ((237, 237), (472, 472)),
        ((500, 500), (472, 472)),  # a codec does not enlarge
    ],
)
def test_a_jpeg_is_decoded_at_its_smallest_scale_that_is_large_enough(
    wanted: tuple[int, int], expected: tuple[int, int]
) -> None:
    frame = Frame.from_image(see_noise(472, 472), 0)
    assert frame.decode_reduced(wanted).shape == (*expected, 3)


def test_sides_that_do_not_divide_are_rounded_up_as_the_codec_does() -> None:
    frame = Frame.from_image(see_noise(101, 203), 0)  # 101 / 4 = 25.25, 203 / 4 = 50.75
    assert frame.decode_reduced((26, 51)).shape == (26, 51, 3)
    assert frame.decode_reduced((27, 51)).shape == (51, 102, 3)


def test_what_is_no_jpeg_comes_whole() -> None:
    image = see_noise(64, 64)
    raw = Frame(0, "rgb8", image.tobytes(), 64, 64)
    for frame in (Frame.lossless(image, 0), raw):
        np.testing.assert_array_equal(frame.decode_reduced((8, 8)), image)
        np.testing.assert_array_equal(ImageView((16, 16), True).show(frame), ImageView((16, 16)).show(frame))


def test_a_damaged_frame_is_refused_in_either_view() -> None:
    whole = Frame.from_image(see_noise(64, 64), 7)
    for data in (b"", b"no image", whole.data[:40]):
        for view in (WHOLE, REDUCED):
            with pytest.raises(EpisodeError, match="frame at 7 ns"):
                view.show(dataclasses.replace(whole, data=data))


def test_a_grey_jpeg_has_three_channels_in_either_view() -> None:
    _, data = cv2.imencode(".jpg", see_noise(200, 200)[:, :, 0])
    frame = Frame(0, "jpeg", data.tobytes())
    assert REDUCED.show(frame).shape == WHOLE.show(frame).shape == (48, 48, 3)


def test_a_frame_in_several_views_is_what_each_makes_of_it_alone() -> None:
    frame = Frame.from_image(see_noise(200, 200), 0)
    views = [WHOLE, REDUCED, ImageView((24, 24)), ImageView((24, 24), is_reduced=True)]
    shown = show_in_each(frame, views)
    for view in views:
        np.testing.assert_array_equal(shown[view], view.show(frame))
    assert (shown[WHOLE] != shown[REDUCED]).any()
    # The same image nevertheless: a fifth of a grey level apart from full decoding would not be visible, twenty would.
    apart = np.abs(shown[WHOLE].astype(int) - shown[REDUCED].astype(int)).mean()
    assert apart < 20


def test_an_arm_shows_its_candidate_what_the_scorer_will(tmp_path: Path) -> None:
    """The observation carries the camera's bytes; the recorded step has the same ones."""
    policy = load_policy(reduce(make_candidate(tmp_path / "whole"), tmp_path / "reduced"))
    for step in make_episode(3, image_size=472, steps=3).steps:
        assert isinstance(step, GraspStep)
        seen = step.observe()
        assert seen.frame is step.frame
        on_arm = Observations.from_sequence([seen], policy.candidate.manifest.input.view)
        np.testing.assert_array_equal(on_arm.images[0], REDUCED.show(step.frame))
        expected, values = policy.decide_each(on_arm, seed=5)
        chosen = policy.decide(seen, seed=5, step=0)
        np.testing.assert_array_equal(chosen.vector, expected[0])
        assert chosen.q == values[0]


def test_an_arm_without_a_camera_is_recorded_without_loss_and_reported_so() -> None:
    seen = ScriptedArm(image_size=200).begin(3)
    assert seen.frame is None
    recorded = Frame.lossless(seen.image, seen.stamp_ns)
    np.testing.assert_array_equal(REDUCED.show_observation(seen), REDUCED.show(recorded))


def test_both_kinds_are_scored_side_by_side_each_as_if_it_were_alone(tmp_path: Path) -> None:
    whole = make_candidate(tmp_path / "whole", architecture="target_crop")
    reduced = reduce(whole, tmp_path / "reduced")
    assert reduced.id != whole.id
    assert [len(stack) for stack in find_stacks([whole, reduced])] == [1, 1]  # their inputs differ
    source = MemorySource([make_episode(seed, image_size=200) for seed in range(24)])

    def score(*candidates: Candidate) -> np.ndarray:
        with QCache(tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite") as q_cache:
            scored = score_candidates(source, candidates, q_cache, LocalEngine(workers=1))
        assert scored.is_complete
        return scored.q

    together = score(whole, reduced)
    np.testing.assert_array_equal(together[:1], score(whole))
    np.testing.assert_array_equal(together[1:], score(reduced))
    assert (together[0] != together[1]).any()
    first = source.read(source.refs[0]).steps
    observations = [Observation(0, step.frame.decode(), step.tool, step.frame) for step in first]  # type: ignore[attr-defined]
    actions = np.stack([step.action_vector() for step in first])
    asked = load_policy(reduced).q(Observations.from_sequence(observations, REDUCED), actions)
    np.testing.assert_allclose(together[1, : len(first)], asked, rtol=0, atol=2e-6)


def test_manifests_that_say_nothing_of_decoding_stay_what_they_are(tmp_path: Path) -> None:
    zoo = Path(__file__).parents[2] / "sim_bridge" / "zoo" / "candidates"
    shipped = read_candidate(zoo / "plain-00100")
    assert shipped.manifest.input.image_decoding is None
    assert "image_decoding" not in shipped.manifest.to_document()["input"]
    again = write_candidate(tmp_path / "again", shipped.manifest, shipped.artifact_bytes)
    assert again.id == shipped.id
    assert behaviour_id(reduce(shipped, tmp_path / "reduced")) != behaviour_id(shipped)


def test_a_decoding_that_nobody_knows_is_refused_in_one_line(tmp_path: Path) -> None:
    made = reduce(make_candidate(tmp_path / "whole"), tmp_path / "reduced")
    file = made.folder / "candidate.yaml"
    file.write_text(file.read_text().replace("image_decoding: reduced", "image_decoding: halved"))
    with pytest.raises(CandidateError, match="image_decoding: got 'halved', expected one of 'reduced'"):
        read_candidate(made.folder)
