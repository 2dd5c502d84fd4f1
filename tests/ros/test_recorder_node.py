from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep
from opc_ros.store import open_store
from opc_ros.store.recovery import recover
from tests.ros.fake_arm import TOOL, FakeArm

pytestmark = pytest.mark.ros


def test_what_a_scripted_arm_shows_is_what_the_store_holds_and_people_label_it_later(
    start: Callable, probe, tmp_path: Path
) -> None:
    from opc_interfaces.msg import EpisodeSummary, GraspStep
    from opc_interfaces.srv import LabelEpisode
    from sensor_msgs.msg import CompressedImage
    from std_srvs.srv import Trigger

    from opc_ros.ros import convert, topics

    summaries = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
    images = probe.listen(CompressedImage, "/arm1/camera/image/compressed", topics.images())
    steps = probe.listen(GraspStep, "/arm1/grasp/step", topics.RECORDED)
    recorder = start("recorder", "/arm1", store=tmp_path / "store")
    arm = start("scripted_arm", "/arm1", rate_hz=20, image_size=64, is_labelled=False)

    def told(summary: EpisodeSummary) -> list[GraspStep]:
        return [step for step in steps if step.episode_id == summary.episode_id]

    def is_heard_whole(summary: EpisodeSummary) -> bool:
        stamps = {convert.stamp_to_ns(image.header.stamp) for image in images}
        heard = [step for step in told(summary) if convert.stamp_to_ns(step.header.stamp) in stamps]
        return summary.outcome == EpisodeSummary.SAVED and len(heard) == summary.steps

    # Discovery may cost the probe the first episodes, but not the recorder: the arm waits for it.
    probe.until(lambda: any(map(is_heard_whole, summaries)), "no episode was heard from begin to end")
    arm.signal(signal.SIGINT)
    assert arm.wait() == 0
    summary = next(filter(is_heard_whole, summaries))
    shown = {convert.stamp_to_ns(image.header.stamp): bytes(image.data) for image in images}
    store = open_store(tmp_path / "store")
    first = store.find(summary.episode_id)
    assert (first.file_sha256, first.steps, first.is_labelled) == (summary.file_sha256, summary.steps, False)
    kept = store.read(first.id).steps
    assert [step.frame.stamp_ns for step in kept] == [convert.stamp_to_ns(s.header.stamp) for s in told(summary)]
    assert [step.frame.data for step in kept] == [shown[step.frame.stamp_ns] for step in kept]
    assert [step.action for step in kept] == [convert.action_from_msg(step.action) for step in told(summary)]
    assert kept[-1].action.terminate

    answer = probe.call(
        LabelEpisode, "/arm1/recorder/label", episode_id=first.id, label=2, labeller="ann", note="saw it"
    )
    assert (answer.success, answer.revision) == (True, 1)
    assert store.find(first.id).label == Label(True, LabelSource.PERSON, "ann")
    assert probe.call(Trigger, "/arm1/recorder/button/last_failed").success
    assert [e.label for e in store.episodes()][-1] == Label(False, LabelSource.PERSON, "button")
    for fields, complaint in (
        ({"episode_id": "nobody", "label": 2, "labeller": "ann"}, "episode nobody: not in"),
        ({"episode_id": first.id, "label": 2}, "labeller is empty, expected who says so"),
        ({"episode_id": first.id, "labeller": "ann"}, "label is 0, expected 1 (failure) or 2 (success)"),
    ):
        answer = probe.call(LabelEpisode, "/arm1/recorder/label", **fields)
        assert not answer.success
        assert complaint in answer.message
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 0


def test_a_file_has_camera_info_joint_states_and_the_begin_event_as_they_were_on_the_wire(
    start: Callable, probe, tmp_path: Path
) -> None:
    from mcap.reader import make_reader
    from opc_interfaces.msg import EpisodeEvent, EpisodeSummary
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import CameraInfo, JointState

    from opc_ros.ros import convert, topics

    start("recorder", "/arm1", store=tmp_path / "store", joint_topic="/lbr/joint_states")
    summaries = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
    infos = probe.publisher(CameraInfo, "/arm1/camera/camera_info", topics.images())
    joints = probe.publisher(JointState, "/lbr/joint_states", topics.RECORDED)
    arm = FakeArm(probe)
    frame = dataclasses.replace(arm.take_image(), frame_id="wrist_lens")
    info = CameraInfo(header=convert.header(frame.stamp_ns, "wrist_lens"), width=8, height=8)
    states = [
        JointState(header=convert.header(frame.stamp_ns + index * 20_000_000), name=["A1"], position=[0.1 * index])
        for index in range(5)
    ]
    # Messages of other topics may overtake these, so they are sent again until all are in one file.

    def record(episode_id: str) -> dict[str, list[bytes]]:
        began_ns = arm.now_ns()
        arm.send_event(EpisodeEvent.BEGIN, header=convert.header(began_ns), episode_id=episode_id)
        arm.wait_for(episode_id=episode_id)
        infos.publish(info)
        for state in states:
            joints.publish(state)
        shown = dataclasses.replace(frame, stamp_ns=arm.now_ns())
        arm.send_frame(shown)
        arm.send_step(shown, 0, episode_id)
        arm.wait_for(steps=1)
        arm.send_event(EpisodeEvent.END, episode_id=episode_id, steps=1)
        probe.until(lambda: any(one.episode_id == episode_id for one in summaries), "no summary")
        committed = open_store(tmp_path / "store").find(episode_id)
        assert committed.began_ns == began_ns
        (path,) = (tmp_path / "store").rglob(f"{episode_id}.mcap")
        with path.open("rb") as file:
            found: dict[str, list[bytes]] = {}
            for _, channel, message in make_reader(file).iter_messages(log_time_order=False):
                found.setdefault(channel.topic, []).append(message.data)
        return found

    def joints_of(found: dict[str, list[bytes]]) -> list[JointState]:
        return [deserialize_message(data, JointState) for data in found.get("/lbr/joint_states", ())]

    for number in range(20):
        found = record(f"e{number}")
        if joints_of(found)[-len(states) :] == states and "/arm1/camera/camera_info" in found:
            break
    assert joints_of(found)[-len(states) :] == states
    assert deserialize_message(found["/arm1/camera/camera_info"][-1], CameraInfo) == info
    assert open_store(tmp_path / "store").read(f"e{number}").steps[0].frame.frame_id == "wrist_lens"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_an_episode_sends_it_to_quarantine(
    start: Callable, probe, tmp_path: Path, signum: signal.Signals
) -> None:
    from opc_interfaces.msg import EpisodeEvent, EpisodeSummary, RecorderStatus

    from opc_ros.ros import topics

    recorder = start("recorder", "/arm1", store=tmp_path / "store")
    summaries = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
    arm = FakeArm(probe)
    frame = arm.take_image()
    arm.send_event(EpisodeEvent.BEGIN, episode_id="e1", behaviour_policy="scripted")
    arm.send_frame(frame)
    arm.send_step(frame, 0, "e1")
    arm.wait_for(state=RecorderStatus.RECORDING, episode_id="e1", steps=1)
    recorder.signal(signum)
    assert recorder.wait() == 0
    probe.until(lambda: summaries, "no summary")
    reason = "the recorder was stopped in the middle of the episode"
    assert (summaries[0].outcome, summaries[0].reason) == (EpisodeSummary.QUARANTINED, reason)
    assert list(open_store(tmp_path / "store").episodes()) == []
    (note,) = (tmp_path / "store" / "quarantine").rglob("*.json")
    assert json.loads(note.read_text())["reason"] == reason
    assert not list((tmp_path / "store").rglob("*.part"))


def test_a_recorder_that_is_killed_costs_only_the_running_episode(start: Callable, probe, tmp_path: Path) -> None:
    from opc_interfaces.msg import EpisodeEvent, EpisodeSummary, RecorderStatus

    from opc_ros.ros import topics

    recorder = start("recorder", "/arm1", store=tmp_path / "store")
    summaries = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
    arm = FakeArm(probe)
    for episode_id in ("e1", "e2"):
        frame = arm.take_image()
        arm.send_event(EpisodeEvent.BEGIN, episode_id=episode_id, behaviour_policy="scripted")
        arm.send_frame(frame)
        arm.send_step(frame, 0, episode_id)
        if episode_id == "e1":
            arm.send_event(EpisodeEvent.END, episode_id=episode_id, label=2, steps=1)
            probe.until(lambda: summaries, "no summary")
    arm.wait_for(state=RecorderStatus.RECORDING, episode_id="e2", steps=1, queue_length=0)
    recorder.signal(signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL
    store = open_store(tmp_path / "store")
    recovery = recover(store)
    assert [line.split(":")[0] for line in recovery.quarantined] == ["e2"]
    assert [(episode.id, episode.label.is_success) for episode in store.episodes()] == [("e1", True)]
    assert len(store.read("e1").steps) == 1


def test_a_step_without_its_frame_is_an_error_on_diagnostics_and_a_reason_for_quarantine(
    start: Callable, probe, tmp_path: Path
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
    from opc_interfaces.msg import EpisodeEvent, EpisodeSummary

    from opc_ros.ros import topics

    start("recorder", "/arm1", store=tmp_path / "store", pairing_timeout_s=3.0)
    summaries = probe.listen(EpisodeSummary, "/arm1/episode/summary", topics.RECORDED)
    reports = probe.listen(DiagnosticArray, "/diagnostics", topics.RECORDED)
    arm = FakeArm(probe)
    arm.send_event(EpisodeEvent.BEGIN, episode_id="e1", behaviour_policy="scripted")
    for index in range(2):
        frame = arm.take_image()
        if index == 1:
            arm.send_frame(frame)
        arm.send_step(frame, index, "e1")
    arm.send_event(EpisodeEvent.END, episode_id="e1", label=2, steps=2)
    probe.until(lambda: summaries, "no summary")
    assert summaries[0].outcome == EpisodeSummary.QUARANTINED
    assert summaries[0].reason == "step 0: its frame never came"
    assert summaries[0].health == ["missing frames: step 0: its frame never came"]

    def found() -> bool:
        return any(
            status.level == DiagnosticStatus.ERROR
            and status.name == "arm1 recorder: missing frames"
            and status.message == "step 0: its frame never came"
            for report in reports
            for status in report.status
        )

    probe.until(found, "nothing on /diagnostics")


def test_raw_frames_of_a_best_effort_camera_and_bare_actions_are_recorded_by_hand(
    start: Callable, probe, tmp_path: Path
) -> None:
    from opc_interfaces.msg import RecorderStatus
    from opc_interfaces.srv import BeginEpisode, EndEpisode
    from std_srvs.srv import Trigger

    settings = {"image_kind": "raw", "image_topic": "camera/image", "step_kind": "action"}
    start("recorder", "/arm1", store=tmp_path / "store", **settings)
    arm = FakeArm(probe, is_raw=True, is_reliable=False, step_kind="action")

    def send_until_heard() -> bool:
        arm.send_frame(Frame(arm.now_ns(), "rgb8", bytes(12), width=2, height=2))
        return bool(arm.statuses) and arm.statuses[-1].frames_received > 0

    probe.until(send_until_heard, "the recorder does not hear a best-effort camera")
    answer = probe.call(BeginEpisode, "/arm1/recorder/begin", behaviour_policy="ann", object_set="cups")
    assert (answer.success, answer.message) == (True, f"recording {answer.episode_id}")
    again = probe.call(BeginEpisode, "/arm1/recorder/begin")
    assert again.message == f"episode {answer.episode_id} is running: end or discard it first"
    frame = Frame(arm.now_ns(), "rgb8", bytes(range(12)), width=2, height=2)
    arm.send_frame(frame)
    arm.send_step(frame, 41, "")
    arm.wait_for(state=RecorderStatus.RECORDING, steps=1)
    ended = probe.call(EndEpisode, "/arm1/recorder/end", label=1, labeller="ann")
    assert ended.message == f"{answer.episode_id}: saved, 1 steps, failure"
    (episode,) = open_store(tmp_path / "store").episodes()
    assert (episode.behaviour_policy, episode.object_set) == ("ann", "cups")
    (step,) = open_store(tmp_path / "store").read(episode.id).steps
    assert (step.frame, step.tool, step.action) == (frame, TOOL, GraspAction())

    for button, message in (("begin", "recording arm1-"), ("discard", "arm1-"), ("end", "no episode is running")):
        assert probe.call(Trigger, f"/arm1/recorder/button/{button}").message.startswith(message)


def test_a_lifecycle_manager_can_drive_it_and_parameters_only_change_before(
    start: Callable, probe, tmp_path: Path
) -> None:
    from lifecycle_msgs.msg import Transition
    from lifecycle_msgs.srv import ChangeState
    from opc_interfaces.msg import RecorderStatus
    from rcl_interfaces.srv import DescribeParameters, SetParameters
    from rclpy.parameter import Parameter
    from std_srvs.srv import Trigger

    from opc_ros.ros import topics

    start("recorder", "/arm1", autostart=False, store=tmp_path / "store")
    statuses = probe.listen(RecorderStatus, "/arm1/recorder/status", topics.LATEST)

    def change(transition: int) -> bool:
        return probe.call(ChangeState, "/arm1/recorder/change_state", transition=Transition(id=transition)).success

    def set_parameter(name: str, value: object) -> tuple[bool, str]:
        parameters = [Parameter(name, value=value).to_parameter_msg()]
        (result,) = probe.call(SetParameters, "/arm1/recorder/set_parameters", parameters=parameters).results
        return result.successful, result.reason

    (description,) = probe.call(
        DescribeParameters, "/arm1/recorder/describe_parameters", names=["queue_capacity"]
    ).descriptors
    assert description.description == "steps that may wait for the disk before one is dropped"
    assert description.additional_constraints == "from 1"
    assert (description.integer_range[0].from_value, description.integer_range[0].to_value) == (1, 2**63 - 1)
    is_set, reason = set_parameter("queue_capacity", 0)
    assert not is_set
    assert "queue_capacity" in reason
    assert "out of range" in reason
    # Where it writes and whom it trusts stay as they were at the start.
    for name in ("store", "keys", "robot"):
        assert set_parameter(name, str(tmp_path / "elsewhere"))[0] is False
    assert change(Transition.TRANSITION_CONFIGURE)
    assert set_parameter("max_steps", 3) == (
        False,
        "max_steps can only be set while unconfigured: deactivate and clean up first",
    )
    probe.until(lambda: statuses and statuses[-1].state == RecorderStatus.INACTIVE, "not inactive")
    refused = probe.call(Trigger, "/arm1/recorder/button/begin")
    assert (refused.success, refused.message) == (False, "the recorder is inactive: activate it first")
    assert change(Transition.TRANSITION_ACTIVATE)
    assert probe.call(Trigger, "/arm1/recorder/button/begin").success
    assert change(Transition.TRANSITION_DEACTIVATE)
    probe.until(lambda: statuses[-1].episodes_quarantined == 1, "not quarantined")
    assert change(Transition.TRANSITION_CLEANUP)
    assert change(Transition.TRANSITION_CONFIGURE)
