"""What strangers tell a recorder over DDS in a lab whose people have keys: none of it becomes evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import EpisodeEvent, EpisodeSummary
from opc_interfaces.msg import GraspStep as GraspStepMsg
from opc_interfaces.msg import Label as LabelMsg
from opc_interfaces.srv import EndEpisode, LabelEpisode
from std_srvs.srv import Trigger

from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.signing import find_signer, make_person_key
from opc_ros.deployment.statement import LabelBody, sign_statement
from opc_ros.episode import LabelSource
from opc_ros.ros import topics
from opc_ros.store import open_store
from tests.ros.fake_arm import FakeArm

pytestmark = pytest.mark.ros


class Recorded:
    """A recorder in a lab with keys, and an arm beside it."""

    def __init__(self, start: Callable[..., Any], probe: Any, folder: Path) -> None:
        self.keys, self.probe = folder / "keys", probe
        create_keys(self.keys)
        make_person_key(self.keys, "ada")
        self.process = start("recorder", "/arm1", store=folder / "store", keys=self.keys, pairing_timeout_s=3.0)
        self.summaries: list[EpisodeSummary] = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
        self.arm = FakeArm(probe)
        self.store = open_store(folder / "store")

    def play(self, episode_id: str, **end: object) -> EpisodeSummary:
        """One step, and the given end."""
        self.begin(episode_id)
        self.arm.send_event(EpisodeEvent.END, episode_id=episode_id, steps=1, **end)
        return self.summary(episode_id)

    def begin(self, episode_id: str) -> None:
        self.arm.send_event(EpisodeEvent.BEGIN, episode_id=episode_id, behaviour_policy="scripted")
        self.arm.wait_for(episode_id=episode_id)
        frame = self.arm.take_image()
        self.arm.send_frame(frame)
        self.arm.send_step(frame, 0, episode_id)

    def summary(self, episode_id: str) -> EpisodeSummary:
        def told() -> list[EpisodeSummary]:
            return [each for each in self.summaries if each.episode_id == episode_id]

        self.probe.until(told, f"nothing of {episode_id}")
        return told()[0]

    def says(self, words: str) -> None:
        self.probe.until(lambda: any(words in line for line in self.process.said()), f"it never said: {words}")


@pytest.fixture
def recorded(start: Callable[..., Any], probe: Any, tmp_path: Path) -> Recorded:
    return Recorded(start, probe, tmp_path)


def test_no_label_counts_under_somebodys_name_that_they_did_not_sign(recorded: Recorded, tmp_path: Path) -> None:
    store, call = recorded.store, recorded.probe.call
    # What the arm reports about its own end counts, as it claims no person's name.
    assert recorded.play("e1", label=LabelMsg.FAILURE).outcome == EpisodeSummary.SAVED
    assert store.find("e1").label.source is LabelSource.EPISODE_END
    # With an end in ada's name, the episode is kept and the claim is not.
    said = {"label": LabelMsg.SUCCESS, "label_source": LabelMsg.SOURCE_PERSON, "labeller": "ada"}
    assert recorded.play("e2", **said).outcome == EpisodeSummary.SAVED
    assert not store.find("e2").is_labelled
    recorded.says("label by 'ada' with the episode's end: nobody has signed it")
    recorded.begin("e3")
    recorded.arm.wait_for(steps=1)
    answer = call(EndEpisode, "/arm1/recorder/end", label=LabelMsg.SUCCESS, labeller="ada")
    assert "not labelled: label by 'ada'" in answer.message
    assert not store.find("e3").is_labelled

    # Nor later: by topic, by service, by button, or with a stranger's signature.
    topic = recorded.probe.publisher(LabelMsg, "/arm1/episode/label", topics.RECORDED)
    topic.publish(LabelMsg(episode_id="e1", label=LabelMsg.SUCCESS, source=LabelMsg.SOURCE_PERSON, labeller="ada"))
    recorded.says("label of 'e1': nobody has signed it")
    eve = create_keys(tmp_path / "eve")
    forged = sign_statement("relabel", "ada", LabelBody("e1", "success"), eve, time.time_ns())
    for statement, reason in (("", "nobody has signed this"), (forged, "is not signed by ada")):
        fields = {"episode_id": "e1", "label": LabelMsg.SUCCESS, "labeller": "ada", "statement": statement}
        answer = call(LabelEpisode, "/arm1/recorder/label", **fields)
        assert (answer.success, reason in answer.message) == (False, True), answer.message
    assert not call(Trigger, "/arm1/recorder/button/last_succeeded").success
    assert store.find("e1").label.is_success is False

    # What ada did sign counts, once.
    ada = find_signer(recorded.keys, recorded.keys / "ada.person.pem")
    word = sign_statement("relabel", ada.person, LabelBody("e1", "success"), ada.signer, time.time_ns())
    assert call(LabelEpisode, "/arm1/recorder/label", statement=word).success
    assert "was acted on already" in call(LabelEpisode, "/arm1/recorder/label", statement=word).message
    assert store.find("e1").label.is_success is True


def test_an_episode_in_which_a_stranger_may_have_had_a_hand_is_not_kept_as_evidence(recorded: Recorded) -> None:
    assert recorded.play("e1", label=LabelMsg.FAILURE).outcome == EpisodeSummary.SAVED
    node = recorded.probe.node
    stranger = node.create_publisher(GraspStepMsg, "/arm1/grasp/step", topics.RECORDED)
    recorded.begin("e2")
    recorded.says("2 publishers of /arm1/grasp/step, expected 1")
    recorded.arm.send_event(EpisodeEvent.END, episode_id="e2", steps=1, label=LabelMsg.SUCCESS)
    summary = recorded.summary("e2")
    assert summary.outcome == EpisodeSummary.QUARANTINED
    assert "2 publishers of /arm1/grasp/step, expected 1" in summary.reason
    node.destroy_publisher(stranger)
    recorded.probe.until(lambda: node.count_publishers("/arm1/grasp/step") == 1, "the stranger stays")
    assert recorded.play("e3", label=LabelMsg.FAILURE).outcome == EpisodeSummary.SAVED
    assert [each.id for each in recorded.store.episodes()] == ["e1", "e3"]
