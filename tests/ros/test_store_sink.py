from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader, Frame, Label, LabelSource
from opc_ros.errors import EpisodeNotFound, OpcError
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.recording.sink import EpisodeSink, MemorySink
from opc_ros.ros.store_sink import StoreSink
from opc_ros.store import open_store

PERSON = Label(is_success=True, source=LabelSource.PERSON, labeller="ann")
STEP = GraspStep(
    frame=Frame(stamp_ns=5, encoding="rgb8", data=bytes(3), width=1, height=1),
    tool=ToolState(0, 0, 0, 0, 0),
    action=GraspAction(),
)


@pytest.fixture(params=["memory", "store"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> EpisodeSink:
    return MemorySink() if request.param == "memory" else StoreSink(open_store(tmp_path / "store", create=True))


def start(episode_id: str) -> EpisodeHeader:
    return EpisodeHeader(id=episode_id, robot="arm1", behaviour_policy="scripted", began_ns=1, object_set="cubes")


def test_a_committed_episode_waits_for_its_label_and_then_no_longer(sink: EpisodeSink) -> None:
    writer = sink.begin(start("e1"))
    writer.add_step(STEP)
    assert writer.commit(Label(), ("clock: jumped",)).file_bytes > 0
    assert list(sink.unlabelled()) == ["e1"]
    assert sink.label("e1", PERSON, "seen") == 1
    assert list(sink.unlabelled()) == []


def test_an_id_is_taken_once(sink: EpisodeSink) -> None:
    writer = sink.begin(start("e1"))
    writer.add_step(STEP)
    writer.commit(Label(), ())
    with pytest.raises(OpcError, match="e1"):
        sink.begin(start("e1"))


def test_quarantined_and_discarded_episodes_cannot_be_labelled(sink: EpisodeSink) -> None:
    writer = sink.begin(start("e1"))
    writer.add_step(STEP)
    writer.quarantine("its frame never came", ())
    sink.begin(start("e2")).discard()
    for episode_id in ("e1", "e2"):
        with pytest.raises(EpisodeNotFound, match=episode_id):
            sink.label(episode_id, PERSON, "")


def test_the_store_keeps_what_the_recorder_said(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    writer = StoreSink(store).begin(start("e1"))
    writer.add_step(STEP)
    saved = writer.commit(PERSON, ("clock: jumped",))
    (episode,) = store.episodes()
    assert (episode.id, episode.robot, episode.object_set, episode.label) == ("e1", "arm1", "cubes", PERSON)
    assert (episode.file_sha256, episode.file_bytes) == (saved.sha256, saved.file_bytes)
    assert episode.health == ("clock: jumped",)
    assert store.read("e1").steps == (STEP,)
