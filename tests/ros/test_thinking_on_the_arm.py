"""A runner with candidates in processes of their own: it chooses as others would, and always answers."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import load_signer
from opc_ros.deployment.permit import Revocations, Rung, sign_permit, sign_revocations
from opc_ros.episode import Episode
from opc_ros.playing import record_episode
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.policy import load_policy
from opc_ros.policies.q_function import Observations
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from opc_ros.store import open_store
from tests.deployment.lab import make_lab, runner_parameters
from tests.deployment.permits import make_permit, session_in
from tests.policies.bad_graphs import loops_for_ever, write_onnx
from tests.ros.conftest import Probe, Process
from tests.ros.releasing import release

pytestmark = pytest.mark.ros

Start = Callable[..., Process]
ROBOT, SEED = "arm1", 41


class Robot:
    """A runner, the heartbeat it expects, and goals for it."""

    def __init__(self, folder: Path, start: Start, probe: Probe, **changes: object) -> None:
        from opc_interfaces.action import RunEpisodes
        from opc_interfaces.msg import RobotStatus, SafetyEvent
        from rclpy.action import ActionClient
        from rclpy.duration import Duration
        from std_msgs.msg import String

        from opc_ros.ros import topics

        self._signer = load_signer(folder / "deployment" / "keys")
        self._lease_id = ""
        self._probe = probe
        self._goal_kind = RunEpisodes
        parameters = runner_parameters(folder, ROBOT, ["full"], heartbeat_s=60.0) | changes
        self.process = start("policy_runner", f"/{ROBOT}", **parameters)
        self.safety_events: list[Any] = probe.listen(SafetyEvent, f"/{ROBOT}/safety/event", topics.RECORDED)
        self._statuses: list[Any] = probe.listen(RobotStatus, f"/{ROBOT}/robot/status", topics.LATEST)
        self._client = ActionClient(probe.node, RunEpisodes, f"/{ROBOT}/run_episodes")
        probe.until(self._client.server_is_ready, "the runner does not come up")
        probe.until(lambda: probe.node.count_publishers(f"/{ROBOT}/safety/event"), "the runner tells nothing")
        self._journal = RobotJournal(folder / ROBOT / "journal.db", 0)
        heartbeat = probe.publisher(String, "/deployment/heartbeat", topics.RECORDED)
        heartbeat.publish(String(data="beat"))  # before the first goal, not a fifth of a second after it
        assert heartbeat.wait_for_all_acked(Duration(seconds=30.0))
        probe.node.create_timer(0.2, lambda: heartbeat.publish(String(data="beat")))

    def _session(self) -> str:
        """The runner's current start id, as it publishes it."""
        self._probe.until(lambda: self._statuses, "the runner tells no status")
        return session_in(self._statuses[-1].session)

    def send(self, candidate: Candidate, permit_id: str = "") -> Any:
        """A valid goal of one episode; returns its handle."""
        from opc_ros.ros.permit_messages import permit_to_msg

        terms = {"session": self._session()} | ({"permit_id": permit_id} if permit_id else {})
        permit = make_permit(candidate.id, ROBOT, Rung.FULL, **terms)
        self._lease_id = permit.lease_id
        goal = self._goal_kind.Goal(
            permit=permit_to_msg(sign_permit(permit, self._signer)),
            candidate_path=str(candidate.folder),
            seed=SEED,
            lease_id=self._lease_id,
        )
        sent = self._client.send_goal_async(goal)
        self._probe.until(sent.done, "the goal is not answered")
        return sent.result()

    def result(self, handle: Any) -> Any:
        future = handle.get_result_async()
        self._probe.until(future.done, "the lease does not end")
        return future.result().result

    def wait_until_thinking(self) -> None:
        """The robot's own journal says when an episode has begun; the first choice follows."""
        self._probe.until(lambda: self._journal.episodes_of(self._lease_id), "no episode begins")

    def revoke(self, permit_id: str) -> None:
        from std_msgs.msg import String

        from opc_ros.ros import topics

        signed = sign_revocations(Revocations(1, (permit_id,)), self._signer)
        publisher = self._probe.publisher(String, "/deployment/revocations", topics.LATEST)
        publisher.publish(String(data=to_text(signed)))


def play_on_the_arm_and_in_evaluation(
    folder: Path, start: Start, probe: Probe, candidate: Candidate
) -> tuple[Episode, Episode]:
    """One episode under a permit, as the recorder kept it, and the same one evaluated: the actions must be the same."""
    start("recorder", f"/{ROBOT}", store=str(folder / "store"))
    robot = Robot(folder, start, probe, wait_for_recorder=True)
    answer = robot.result(robot.send(candidate))
    assert answer.success, answer.message
    (episode_id,) = answer.episode_ids
    with open_store(folder / "store") as store:
        probe.until(lambda: episode_id in {each.id for each in store.episodes()}, "the episode was not recorded")
        recorded = store.read(episode_id)
    assert (recorded.seed, recorded.behaviour_policy) == (SEED, candidate.id)
    evaluated = record_episode(
        ScriptedArm(image_size=64), load_policy(candidate), SEED, episode_id="e", object_set="disc"
    )
    assert [step.action for step in recorded.steps] == [step.action for step in evaluated.steps]
    return recorded, evaluated


def test_evaluator_runner_and_scorer_choose_the_same_actions_bit_for_bit(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    (candidate,) = make_lab(tmp_path, {ROBOT: ["full"]})
    recorded, evaluated = play_on_the_arm_and_in_evaluation(tmp_path, start, probe, candidate)

    # The scorer gets what was recorded: the frames' bytes, the tool, the seed.
    seen = Observations.from_sequence([step.observe() for step in recorded.steps], ImageView((48, 48)))
    again, values = load_policy(candidate).decide_each(seen, seed=SEED)
    np.testing.assert_array_equal(again, evaluated.actions())
    # No candidate is judged by its own play, so the scorer is told that somebody else played this.
    others = dataclasses.replace(recorded, behaviour_policy="somebody else", permit_id="")
    with QCache(tmp_path / "q.sqlite") as q_cache:
        scored = score_candidates(MemorySource([others]), [candidate], q_cache, LocalEngine(), has_greedy=True)
    assert scored.failed_candidates == ()
    assert scored.q_greedy is not None
    np.testing.assert_array_equal(scored.q_greedy[0], np.maximum(values, scored.q[0]))


@pytest.fixture
def endless(tmp_path: Path) -> Candidate:
    """Loads and answers a probe; its first search never ends, and its manifest allows it all the time in the world."""
    make_lab(tmp_path, {ROBOT: ["full"]})
    return write_onnx(tmp_path / "endless", loops_for_ever(after_row=10), think_s=600.0)


def test_cancel_and_revocation_end_an_endless_search(
    tmp_path: Path, start: Start, probe: Probe, endless: Candidate
) -> None:
    robot = Robot(tmp_path, start, probe)
    handle = robot.send(endless)
    robot.wait_until_thinking()
    handle.cancel_goal_async()
    assert robot.result(handle).message == "cancelled"
    handle = robot.send(endless, permit_id="5a5a")
    robot.wait_until_thinking()
    robot.revoke("5a5a")
    assert robot.result(handle).message == "permit 5a5a was revoked"


def test_a_stop_and_sigterm_end_an_endless_search(
    tmp_path: Path, start: Start, probe: Probe, endless: Candidate
) -> None:
    from std_msgs.msg import Bool

    from opc_ros.ros import topics

    robot = Robot(tmp_path, start, probe)
    handle = robot.send(endless)
    robot.wait_until_thinking()
    stop = probe.publisher(Bool, f"/{ROBOT}/stop", topics.LATEST)
    stop.publish(Bool(data=True))
    assert "stopped while the candidate was thinking" in robot.result(handle).message
    release(ROBOT, tmp_path / "deployment" / "keys")
    robot.send(endless)
    robot.wait_until_thinking()
    robot.process.signal(signal.SIGTERM)
    robot.process.wait()


def test_past_its_deadline_a_choice_is_cut_off_and_reported_as_a_safety_event(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    make_lab(tmp_path, {ROBOT: ["full"]})
    late = write_onnx(tmp_path / "late", loops_for_ever(after_row=10), think_s=0.2)
    robot = Robot(tmp_path, start, probe)
    answer = robot.result(robot.send(late))
    assert answer.message == "candidate late: took longer than 0.2 s"
    assert (answer.episodes_run, answer.successes) == (1, 0)
    probe.until(lambda: robot.safety_events, "nobody is told")
    assert robot.safety_events[0].kind == robot.safety_events[0].WATCHDOG
    assert robot.safety_events[0].detail == answer.message
