"""Writing episodes and reading exactly the same back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.episode import EpisodeHeader, Frame, Label
from opc_ros.errors import EpisodeDamaged, EpisodeError, EpisodeNotFound, StoreError
from opc_ros.grasp import GraspStep
from opc_ros.store import Store, open_store
from tests.store.grasps import FAILURE, SUCCESS, make_episode

HEADER = EpisodeHeader(
    id="e1", robot="left", behaviour_policy="scripted", began_ns=50_000_000, object_set="cups", permit_id="permit-7"
)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("encoding", ["jpeg", "rgb8"])
def test_an_appended_episode_reads_back_as_it_was(store: Store, encoding: str) -> None:
    written = make_episode(encoding=encoding)
    store.append(written)
    read = store.read("e1")
    assert (read.id, read.robot, read.behaviour_policy) == ("e1", "left", "scripted")
    assert (read.object_set, read.permit_id, read.label) == ("cups", "permit-7", SUCCESS)
    assert [step.frame.data for step in read.steps] == [step.frame.data for step in written.steps]
    assert [step.frame.stamp_ns for step in read.steps] == [100_000_000, 200_000_000, 300_000_000]
    assert [step.tool for step in read.steps] == [step.tool for step in written.steps]
    np.testing.assert_array_equal(read.actions(), written.actions())
    np.testing.assert_array_equal(read.steps[0].observe().image, written.steps[0].observe().image)


def test_what_was_sent_is_kept_only_where_it_differs_from_what_was_chosen(store: Store) -> None:
    store.append(make_episode())
    first, second, third = store.read("e1").steps
    assert first.sent is None
    assert third.sent is None
    assert second.sent is not None
    assert second.sent.displacement_m == (0.0, 0.01, -0.08)


def test_a_commit_says_what_it_wrote(store: Store) -> None:
    writer = store.begin(HEADER)
    for step in make_episode().steps:
        writer.add_step(step)
    committed = writer.commit(FAILURE, health=("frame 2 came 40 ms late",), ended_ns=350_000_000)
    path = store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap"
    assert committed.steps == 3
    assert committed.began_ns == 50_000_000
    assert committed.duration_ns == 300_000_000
    assert committed.file_bytes == path.stat().st_size
    assert committed.health == ("frame 2 came 40 ms late",)
    assert committed.label == FAILURE
    assert list(store.episodes()) == [committed]


def test_the_same_episode_makes_the_same_bytes(tmp_path: Path) -> None:
    shas = {
        open_store(tmp_path / name, create=True).append(make_episode(seed=3)).file_sha256 for name in ("one", "two")
    }
    assert len(shas) == 1


def test_an_episode_that_is_still_being_written_is_not_in_the_store(store: Store) -> None:
    writer = store.begin(HEADER)
    writer.add_step(make_episode().steps[0])
    assert list(store.episodes()) == []
    with pytest.raises(EpisodeNotFound, match="e1"):
        store.read("e1")


def test_a_discarded_episode_leaves_nothing(store: Store) -> None:
    writer = store.begin(HEADER)
    writer.add_step(make_episode().steps[0])
    writer.discard()
    assert {name for name in files_below(store.path) if not name.startswith("catalogue/")} == {"store.json"}
    with pytest.raises(StoreError, match="already"):
        writer.commit(SUCCESS)


def test_a_quarantined_episode_keeps_its_frames_and_its_reason(store: Store) -> None:
    writer = store.begin(HEADER)
    writer.add_step(make_episode().steps[0])
    kept = writer.quarantine("camera went away", health=("no frame for 2 s",))
    assert kept == store.path / "quarantine" / "left" / "e1.mcap"
    (entry,), errors = store.quarantined()
    assert errors == []
    assert (entry.episode_id, entry.reason, entry.steps) == ("e1", "camera went away", 1)
    assert entry.health == ("no frame for 2 s",)
    assert list(store.episodes()) == []


def test_a_second_quarantine_of_an_id_does_not_overwrite_the_first(store: Store) -> None:
    kept = []
    for reason in ("first", "second"):
        writer = store.begin(HEADER)
        writer.add_step(make_episode().steps[0])
        kept.append(writer.quarantine(reason))
    assert [path.name for path in kept] == ["e1.mcap", "e1~2.mcap"]
    assert [entry.reason for entry in store.quarantined()[0]] == ["first", "second"]


@pytest.mark.parametrize("robot", ["left", "right"])
def test_an_id_is_given_out_once(store: Store, robot: str) -> None:
    store.append(make_episode())
    with pytest.raises(StoreError, match=r"e1\.mcap exists"):
        store.append(make_episode(robot=robot))
    running = store.begin(EpisodeHeader("e2", "left", "scripted", 0))
    with pytest.raises(StoreError, match=r"e2\.mcap\.part exists"):
        store.begin(EpisodeHeader("e2", robot, "scripted", 0))
    running.discard()
    assert files_below(store.path / "episodes") == {"left/1970-01-01/e1.mcap", "left/1970-01-01/e1.json"}


@pytest.mark.parametrize("name", ["", "../e1", "a/b", ".hidden", "-x", "ä", "x" * 121, "a b"])
def test_names_that_cannot_be_file_names_are_refused(name: str) -> None:
    with pytest.raises(EpisodeError, match="episode id"):
        EpisodeHeader(name, "left", "scripted", 0)
    with pytest.raises(EpisodeError, match="robot"):
        EpisodeHeader("e1", name, "scripted", 0)


def test_an_invalid_step_is_refused_and_the_episode_goes_on(store: Store) -> None:
    good = make_episode().steps
    writer = store.begin(HEADER)
    writer.add_step(good[0])
    tool, action = good[0].tool, good[0].action
    with pytest.raises(EpisodeError, match="expected after 100000000 ns"):
        writer.add_step(good[0])
    for frame, message in (
        (Frame(200_000_000, "jpeg", b"PNG"), "expected a jpeg image"),
        (Frame(200_000_000, "rgb8", b"1234", 2, 2), "4 bytes, expected 12"),
        (Frame(200_000_000, "yuv422", b"1234", 2, 2), "encoding 'yuv422'"),
    ):
        with pytest.raises(EpisodeError, match=message):
            writer.add_step(GraspStep(frame=frame, tool=tool, action=action))
    with pytest.raises(EpisodeError, match="frame is at -1 ns"):
        writer.add_step(GraspStep(frame=Frame(-1, "jpeg", good[0].frame.data), tool=tool, action=action))
    writer.add_step(good[1])
    writer.add_step(good[2])
    with pytest.raises(EpisodeError, match="terminates"):
        writer.add_step(GraspStep(frame=Frame(400_000_000, "jpeg", good[0].frame.data), tool=tool, action=action))
    assert writer.commit(SUCCESS).steps == 3
    assert len(store.read("e1").steps) == 3


def test_an_episode_without_steps_is_not_committed(store: Store) -> None:
    writer = store.begin(HEADER)
    with pytest.raises(EpisodeError, match="no steps"):
        writer.commit(SUCCESS)
    writer.discard()


def test_a_file_that_reads_back_differently_is_not_committed(store: Store) -> None:
    writer = store.begin(HEADER)
    for step in make_episode(image_size=472, encoding="rgb8").steps:
        writer.add_step(step)
    part = store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap.part"
    with part.open("r+b") as file:
        file.write(b"\x00")  # a disk that does not keep what it was given
    with pytest.raises(EpisodeDamaged, match="reads back as"):
        writer.commit(SUCCESS)
    assert list(store.episodes()) == []
    writer.quarantine("disk is failing")
    (entry,), _ = store.quarantined()
    assert entry.reason.startswith("disk is failing (episode e1:")


def test_unlabelled_episodes_are_kept_without_label(store: Store) -> None:
    committed = store.append(make_episode(label=Label()))
    assert not committed.is_labelled
    assert store.read("e1").label == Label()


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder"):
        open_store(tmp_path / "absent")
    with pytest.raises(StoreError, match=r"no store\.json"):
        open_store(tmp_path)
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex'"):
        open_store(tmp_path, create=True)


def test_a_store_of_a_newer_format_is_refused_in_one_line(store: Store) -> None:
    marker = store.path / "store.json"
    marker.write_text(marker.read_text().replace('"version": 1', '"version": 3'))
    with pytest.raises(StoreError, match="format version 3, this opc_ros reads up to 2") as caught:
        open_store(store.path)
    assert "\n" not in str(caught.value)


def test_creating_an_existing_store_keeps_it(store: Store) -> None:
    store.append(make_episode())
    with open_store(store.path, create=True) as again:
        assert [committed.id for committed in again.episodes()] == ["e1"]
