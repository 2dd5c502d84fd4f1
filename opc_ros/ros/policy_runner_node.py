"""The policy runner: a ROS action that moves an arm only after its own check of permit and candidate."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import RobotStatus, SafetyEvent
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from std_msgs.msg import String

from opc_ros.bringup.lab_names import in_lab
from opc_ros.deployment.arm_lease import LeaseRequest
from opc_ros.deployment.audit_log import AuditLog, find_audit_log
from opc_ros.deployment.dsse import from_text, to_text
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.permit import Permit, parse_rungs
from opc_ros.deployment.robot_results import begin_session, sign_result
from opc_ros.deployment.runner import End, LeaseReport, LeaseRunner
from opc_ros.deployment.signing import require_robot_key
from opc_ros.deployment.verifier import PermitVerifier
from opc_ros.errors import (
    ArmError,
    ArmStopped,
    EpisodeStopped,
    LabUnreachable,
    OpcError,
    PermitOutdated,
    PermitRefused,
    RobotClockWrong,
)
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import Policy
from opc_ros.policies.worker.host import WorkerHost
from opc_ros.ros import convert, topics
from opc_ros.ros.arm_connection import ArmConnection
from opc_ros.ros.candidate_source import CandidateSource
from opc_ros.ros.episode_topics import EpisodeTopics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.only_one import only_one
from opc_ros.ros.permit_messages import permit_from_msg, rung_of
from opc_ros.ros.policy_runner_settings import PolicyRunnerSettings
from opc_ros.ros.recorder_watch import RecorderWatch
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.run_messages import ENDS, feedback_to_msg, result_to_msg
from opc_ros.ros.runner_stop import RunnerStop
from opc_ros.ros.steady import create_steady_timer
from opc_ros.ros.stop_channel import SafetyReporter


class PolicyRunnerNode(OpcNode[PolicyRunnerSettings]):
    """Runs permitted episodes on one arm."""

    NAME = "policy_runner"
    SETTINGS = PolicyRunnerSettings
    IS_GUARDED = True

    def setup(self, settings: PolicyRunnerSettings) -> None:
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        keys, state = Path(settings.keys), Path(settings.state)
        load_trusted_keys(keys)
        self.held.enter_context(only_one(self.NAME, self._robot, state))
        self._journal = RobotJournal(state / "journal.db", self.now_ns())
        self.held.callback(self._journal.close)
        self._journal.break_off_unfinished()
        self._signer = require_robot_key(keys, self._robot)
        self._session, self._session_envelope = begin_session(self._robot, self._signer, self.now_ns())
        self._audit_log = AuditLog(find_audit_log(state), self._signer)
        self._verifier = PermitVerifier(
            self._robot,
            parse_rungs(settings.rungs),
            lambda: load_trusted_keys(keys),
            self._journal,
            self._audit_log,
            self.now_ns,
            self._session.session,
        )
        is_ros = settings.arm == "ros"
        self._sink = EpisodeTopics(self, self._robot, self.now_ns, self._on_step, has_camera=is_ros)
        self.held.callback(self._sink.close)
        self._runner = LeaseRunner(
            self._verifier,
            self._journal,
            self._sink,
            why_not_begin=self._why_not_begin,
            why_to_stop=self._why_to_stop,
            tell_overrun=lambda reason: self._reporter.report(SafetyEvent.WATCHDOG, reason),
            await_recording=self._await_recording,
        )
        self._busy = threading.Lock()
        self._arm = ArmConnection(
            self._robot,
            settings.arm,
            settings.arm_config,
            settings.reduced_speed,
            settings.image_size,
            self.now_ns,
            lambda: self._sink.episode_id,
            lambda: self._runner.why_to_stop(self._permit) if self._permit else self._why_to_stop(),
            keys,
            settings.gateway,
            self._signer,
        )
        self.held.callback(self._arm.close)
        tell = self.get_logger().error
        self._candidates = CandidateSource(settings, self._robot, self._signer, state / "candidates", tell)
        self.held.callback(self._candidates.close)
        self._goal: ServerGoalHandle | None = None
        self._permit: Permit | None = None
        self._progress = ("", 0)
        self._is_stopping = False
        self._heard_s = 0.0
        self._refused = 0
        # It takes seconds to start; do that before a permit starts to run out.
        self._host = WorkerHost(allow_code=settings.allow_code)
        self.held.callback(self._host.close)
        self._connect()

    def note_refused(self, what: str) -> None:
        super().note_refused(what)
        self._verifier.note_refusal(what)

    def start(self) -> None:
        self._is_stopping = False
        self._timer = create_steady_timer(self, 0.2, self._publish_status, self._group)

    def pause(self) -> None:
        """Let the current episode end at its next step."""
        self._is_stopping = True
        self.destroy_timer(self._timer)
        if self._busy.acquire(timeout=30.0):
            self._busy.release()

    def hurry(self) -> None:
        self._is_stopping = True

    def _connect(self) -> None:
        self._group = ReentrantCallbackGroup()
        self._status = self.create_publisher(RobotStatus, "robot/status", topics.LATEST)
        self.held.callback(self.destroy_publisher, self._status)
        self._reporter = SafetyReporter(self, self._robot, lambda: self._sink.episode_id)
        self.held.callback(self._reporter.close)
        for kind, topic, act, qos in (
            (String, in_lab("/deployment/heartbeat"), self._on_heartbeat, topics.RECORDED),
            (String, in_lab("/deployment/revocations"), self._on_revocations, topics.LATEST),
        ):
            watch = self.create_subscription(kind, topic, act, qos, callback_group=self._group)
            self.held.callback(self.destroy_subscription, watch)
        self._stop = RunnerStop(
            self,
            self._robot,
            Path(self._settings.keys),
            self._audit_log,
            on_change=self._publish_status,
            on_refusal=self._refuse_release,
            now=self.now_ns,
        )
        self.held.callback(self._stop.close)
        self._recorder = RecorderWatch(self, needs_images=self._settings.arm == "ros", callback_group=self._group)
        self.held.callback(self._recorder.close)
        server = ActionServer(
            self,
            RunEpisodes,
            "run_episodes",
            execute_callback=self._execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT if self.is_active else GoalResponse.REJECT,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
            callback_group=self._group,
        )
        self.held.callback(server.destroy)

    def _execute(self, goal: ServerGoalHandle) -> RunEpisodes.Result:
        if not self._busy.acquire(blocking=False):
            running = self._permit.lease_id if self._permit else "another lease"
            goal.abort()
            return self._result(RunEpisodes.Result.BUSY, f"busy with {running}", goal.request.lease_id)
        try:
            self._goal = goal
            report = self._run(goal)
        except Exception as error:
            report = LeaseReport(End.BROKEN_OFF, f"{type(error).__name__}: {error}", ())
            self.get_logger().error(report.message)
        finally:
            self._goal, self._permit, self._progress = None, None, ("", 0)
            self._busy.release()
        if goal.is_cancel_requested:
            goal.canceled()
        elif report.end is End.DONE:
            goal.succeed()
        else:
            goal.abort()
        return self._result(ENDS[report.end], report.message, goal.request.lease_id)

    def _run(self, goal: ServerGoalHandle) -> LeaseReport:
        """Check, load exactly the bytes that were checked, and run."""
        request = goal.request
        known = self._runner.known(request.lease_id)
        if known and len(known) >= request.permit.episodes:
            self._verifier.note_repeat(request.lease_id)
            return LeaseReport(End.DONE, "", known)
        if apart := self._candidates.why_not_begin():  # a time known to be wrong must not get into the journal
            return LeaseReport(End.BROKEN_OFF, apart, known)
        try:
            candidate = self._candidates.read(request, self._why_to_stop)
            signed, rung = permit_from_msg(request.permit), rung_of(request.permit)
            permit = self._verifier.check(signed, candidate.id if candidate else "", rung, request.lease_id)
            assert candidate is not None  # no permit matches an empty digest
            self._permit = permit
            self._arm.refuse_other_camera(candidate.name, candidate.manifest.input.camera)
            shown = LeaseRequest(
                robot=self._robot,
                leave="permit",
                envelope=to_text(signed),
                candidate_id=candidate.id,
                rung=permit.rung.value,
                session=self._session.session,
                started_ns=self._session.started_ns,
            )
            with closing(self._load(candidate, permit)) as policy, self._arm.leased(permit.rung, shown) as arm:
                return self._runner.run(permit, arm, policy, int(request.seed))
        except (EpisodeStopped, ArmError, PermitOutdated, LabUnreachable) as error:
            return LeaseReport(End.BROKEN_OFF, str(error), known)
        except OpcError as error:
            if not isinstance(error, PermitRefused):
                self._verifier.note_refusal(str(error))
            self._tell_refusal(str(error))
            return LeaseReport(End.BROKEN_OFF if isinstance(error, RobotClockWrong) else End.REFUSED, str(error), known)

    def _load(self, candidate: Candidate, permit: Permit) -> Policy:
        """Load the policy in a separate process, so that this node keeps answering whatever the candidate does."""
        return self._host.load_policy(
            candidate,
            deadline_s=candidate.manifest.think_s,
            why_to_stop=lambda: self._why_to_stop_thinking(permit),
        )

    def _why_to_stop_thinking(self, permit: Permit) -> str | None:
        if self._stop.is_in_force:
            raise ArmStopped(f"arm {self._robot}: stopped while the candidate was thinking")
        return self._runner.why_to_stop(permit)

    def _why_to_stop(self) -> str | None:
        if self._is_stopping:
            return "the runner is being shut down"
        if self._goal is not None and self._goal.is_cancel_requested:
            if self._permit is not None:
                self._verifier.revoke(self._permit.permit_id)
            return "cancelled"
        return None

    def _why_not_begin(self) -> str | None:
        silence_s = time.monotonic() - self._heard_s
        if silence_s > self._settings.heartbeat_s:
            return f"scheduler not heard from for more than {self._settings.heartbeat_s:g} s"
        reason = self._candidates.why_not_begin()
        if reason is not None or not self._settings.wait_for_recorder:
            return reason
        return self._recorder.wait(self._settings.recorder_timeout_s, self._why_to_stop)

    def _await_recording(self, episode_id: str) -> str:
        if not self._settings.wait_for_recorder:
            return ""
        return self._recorder.wait_for_recording(episode_id, self._settings.recorder_timeout_s)

    def _on_step(self, episode_id: str, index: int) -> None:
        self._progress = (episode_id, index)
        goal = self._goal
        if goal is not None and self._permit is not None:
            episodes = self._runner.known(self._permit.lease_id)
            with suppress(RuntimeError):  # a client that has gone away must not stop the arm in mid-air
                goal.publish_feedback(feedback_to_msg(episodes, episode_id, index))

    def _on_heartbeat(self, msg: String) -> None:
        self._heard_s = time.monotonic()

    def _refuse_release(self, reason: str) -> None:
        self._verifier.note_refusal(f"release refused: {reason}")
        self._tell_refusal(f"release: {reason}")

    def _on_revocations(self, msg: String) -> None:
        try:
            self._verifier.accept_revocations(from_text(msg.data))
        except OpcError as error:
            self._tell_refusal(str(error))
        self._publish_status()  # a person who halts robots waits for this confirmation

    def _tell_refusal(self, reason: str) -> None:
        self._refused += 1
        self._reporter.report(SafetyEvent.REFUSED, reason)

    def _publish_status(self) -> None:
        if self._is_stopping:
            return
        permit = self._permit
        state, reason = RobotStatus.RUNNING if permit else RobotStatus.IDLE, ""
        if self._stop.is_in_force:
            state, reason = RobotStatus.STOPPED, "a stop is in force"
        elif not permit and self.count_publishers(topics.BEHAVIOUR_STATUS):
            state, reason = RobotStatus.HOLDING, "a behaviour policy drives this arm"
        elif not permit and (wrong := self._verifier.why_clock_is_wrong()):
            state, reason = RobotStatus.HOLDING, wrong
        self._status.publish(
            RobotStatus(
                header=convert.header(self.now_ns()),
                robot=self._robot,
                state=state,
                reason=reason,
                candidate_id=permit.candidate_id if permit else "",
                permit_id=permit.permit_id if permit else "",
                episode_id=self._progress[0],
                rung=permit.rung.number if permit else 0,
                step=self._progress[1],
                episodes_left=self._verifier.episodes_left(permit) if permit else 0,
                commands_refused=self._refused,
                session=self._session_envelope,
                revocation_serial=self._journal.revocation_serial,
            )
        )

    def _result(self, end: int, message: str, lease_id: str) -> RunEpisodes.Result:
        episodes = self._runner.known(lease_id)
        envelope = sign_result(
            self._robot,
            lease_id,
            end,
            message,
            episodes,
            self._signer,
            self.now_ns(),
            self._journal.audit_witness(),
        )
        return result_to_msg(end, message, episodes, envelope)


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(PolicyRunnerNode, argv, threads=4)


if __name__ == "__main__":
    sys.exit(main())
