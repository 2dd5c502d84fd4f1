"""Episodes of a task other than grasping, and what an episode remembers of its camera and seed."""

from __future__ import annotations

import dataclasses
import json

import pytest

from opc_ros.episode import Episode, EpisodeHeader, Frame, PlainStep
from opc_ros.errors import EpisodeDamaged, EpisodeError, TaskError
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.store import Store, recover, verify
from opc_ros.store.step_codecs import codec_of
from tests.store.grasps import make_episode
from tests.store.points import WON, make_point


def test_an_episode_of_pong_reads_back_as_it_was(store: Store) -> None:
    written = make_point()
    committed = store.append(written)
    assert (committed.task, committed.seed) == ("pong", 7)
    read = store.read("p1")
    assert read == written
    assert read.actions().tolist() == [[0.0], [1.0], [-1.0]]
    assert read.states().shape == (3, 0)
    assert store.find("p1") == committed
    assert verify(store).problems == ()


def test_a_lost_sidecar_of_pong_is_rewritten_from_its_file(store: Store) -> None:
    committed = store.append(make_point())
    (store.path / "episodes" / "emulator" / "1970-01-01" / "p1.json").unlink()
    assert len(recover(store).completed) == 1
    again = store.find("p1")
    assert (again.task, again.seed, again.file_sha256) == ("pong", 7, committed.file_sha256)


def test_a_step_that_does_not_fit_the_task_is_refused_in_one_line(store: Store) -> None:
    frame = make_episode().steps[0].frame
    writer = store.begin(EpisodeHeader("p1", "emulator", "dqn", 0, task="pong"))
    with pytest.raises(TaskError, match="episode p1: step 0: action has 2 numbers, expected 1 for pong"):
        writer.add_step(PlainStep(frame, (0.0, 1.0)))
    with pytest.raises(TaskError, match="state has 5 numbers, expected 0 for pong"):
        writer.add_step(make_episode().steps[0])
    with pytest.raises(TaskError, match="move is nan"):
        writer.add_step(PlainStep(frame, (float("nan"),)))
    with pytest.raises(TaskError, match="task is 'chess', expected one of grasping, pong"):
        store.begin(EpisodeHeader("c1", "board", "nobody", 0, task="chess"))
    with pytest.raises(EpisodeError, match="seed is -1"):
        EpisodeHeader("p2", "emulator", "dqn", 0, seed=-1)
    writer.add_step(PlainStep(frame, (1.0,)))
    assert writer.commit(WON).steps == 1


def test_an_episode_that_says_nothing_new_is_committed_in_the_words_of_before(store: Store) -> None:
    store.append(make_episode("e1"))
    store.append(dataclasses.replace(make_episode("e2"), seed=3))
    old, new = (
        json.loads((store.path / "episodes" / "left" / "1970-01-01" / f"{name}.json").read_text())
        for name in ("e1", "e2")
    )
    assert (old["version"], "task" in old, "seed" in old) == (1, False, False)
    assert (new["version"], new["task"], new["seed"]) == (2, "grasping", 3)
    assert (store.read("e1").seed, store.read("e2").seed) == (None, 3)


def test_a_camera_keeps_its_own_frame_id(store: Store) -> None:
    episode = make_episode("e1")
    named = tuple(
        dataclasses.replace(step, frame=dataclasses.replace(step.frame, frame_id="wrist_optical"))
        for step in episode.steps
    )
    store.append(dataclasses.replace(episode, steps=named))
    assert {step.frame.frame_id for step in store.read("e1").steps} == {"wrist_optical"}
    assert Frame(0, "jpeg", b"").frame_id == "camera"


def test_a_sidecar_that_names_another_task_than_its_file_is_noticed(store: Store) -> None:
    from opc_ros.store.commit import encode_sidecar
    from opc_ros.store.records import Sidecar

    committed = store.append(make_point())
    fields = {field.name: getattr(committed, field.name) for field in dataclasses.fields(Sidecar)}
    path = store.path / "episodes" / "emulator" / "1970-01-01" / "p1.json"
    path.write_bytes(encode_sidecar(Sidecar(**{**fields, "task": "grasping"})))
    with pytest.raises(EpisodeDamaged, match="task"):
        store.read("p1")


def test_an_old_episode_of_pong_kept_as_gripper_moves_still_opens(store: Store) -> None:
    up = GraspAction(displacement_m=(0.0, 0.0, 0.05))
    nothing_known = ToolState(0.0, 0.0, 0.0, 0.0, 0.0)
    frame = make_episode(image_size=16).steps[0].frame
    store.append(Episode("point-00001", "pong", "dqn-1", (GraspStep(frame, nothing_known, up),), WON))
    read = store.read("point-00001")
    assert (read.task, read.actions().tolist()[0][2]) == ("grasping", pytest.approx(0.05))


def test_a_grasp_in_a_file_of_pong_is_refused() -> None:
    header = EpisodeHeader("p1", "emulator", "dqn", 0, task="pong")
    with pytest.raises(EpisodeDamaged, match="step of type opc_interfaces/msg/GraspStep, which no episode of pong has"):
        codec_of("opc_interfaces/msg/GraspStep", header)
    with pytest.raises(EpisodeDamaged, match="a step before its BEGIN event"):
        codec_of("opc_interfaces/msg/TaskStep", None)
