"""The scheduler as a ROS node: services for people, and an action client for each robot."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import Ranking as RankingMsg
from opc_interfaces.msg import RobotStatus, SafetyEvent
from opc_interfaces.srv import GetDeployment, SubmitStatement
from rclpy.action import ActionClient
from rclpy.task import Future
from std_msgs.msg import String

from opc_ros.bringup.config_files import find_config
from opc_ros.bringup.lab import load_lab, load_scheduler_rules
from opc_ros.bringup.lab_names import in_lab
from opc_ros.config import load_config
from opc_ros.deployment.decision import Decision, RealResult
from opc_ros.deployment.dsse import from_text
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.gatekeeper import Gatekeeper
from opc_ros.deployment.history import FILE_NAME as HISTORY_NAME
from opc_ros.deployment.keys import load_trusted_keys
from opc_ros.deployment.people import load_people
from opc_ros.deployment.queue_rows import Lease, Request
from opc_ros.deployment.robot_results import Session, open_result, open_session
from opc_ros.deployment.rules_in_force import note_rules
from opc_ros.deployment.scheduler import Orders, Scheduler
from opc_ros.deployment.status import describe_deployment, describe_next, describe_race
from opc_ros.errors import DeploymentError, DiskFull, OpcError, QueueEdited
from opc_ros.ranking import Ranking
from opc_ros.ros import topics
from opc_ros.ros.halt_service import HaltService
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.permit_messages import decision_to_msg, permit_to_msg
from opc_ros.ros.run import run_node
from opc_ros.ros.scheduler_settings import SchedulerSettings
from opc_ros.ros.services import create_service
from opc_ros.ros.steady import create_steady_timer
from opc_ros.store import open_store
from opc_ros.workflows.recording_look import RecordingLook
from opc_ros.workflows.statements import StatementHandler

READY = (RobotStatus.IDLE, RobotStatus.RUNNING)
NEWS_S = 0.05  # how often to check whether another program has written to the queue
LEND_BUDGET_S = 0.03  # per tick, so that heartbeats still go out
SUCCESSES = {"success": True, "failure": False}


class SchedulerNode(OpcNode[SchedulerSettings]):
    """Leases robots to candidates and collects the results."""

    NAME = "scheduler"
    SETTINGS = SchedulerSettings
    IS_GUARDED = True

    def setup(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._rules = load_scheduler_rules(settings.rules, settings.lab)
        # Robots on other machines have their recordings carried into the lab's store.
        lab = load_lab(settings.lab) if settings.lab else None
        near = {name: robot for name, robot in lab.robots.items() if lab.machine_of(name) == lab.central} if lab else {}
        self._own_stores = {name: Path(robot.store) for name, robot in near.items() if robot.store}
        folder = self._folder = DeploymentFolder(Path(settings.state))
        gate_rules = load_config(find_config(settings.gate), GateRules)
        self._gatekeeper = Gatekeeper(
            gate_rules,
            Path(settings.ranking),
            lambda: open_store(settings.store),
            self.now_ns,
            Path(settings.state) / HISTORY_NAME,
            folder.keys,
        )
        self.held.callback(self._gatekeeper.close)
        with suppress(OpcError):
            self._gatekeeper.evidence()  # load it before anybody waits for heartbeats
        self._queue, signer = self.held.enter_context(folder.open())
        self._deployment_id = signer.key_id
        self._statements = StatementHandler(
            self._queue,
            folder.keys,
            self._rules,
            self._gatekeeper,
            Path(settings.candidates),
            Path(settings.store),
            self.now_ns,
        )
        look = RecordingLook(self._store_of)
        self.held.callback(look.close)
        self._scheduler = Scheduler(
            self._queue,
            self._rules,
            signer,
            self._ask_gate,
            self.now_ns,
            lambda: secrets.token_hex(8),
            load_trusted_keys(folder.keys),
            partial(self._gatekeeper.forecast, patience_s=0.0),
            look=look,
            race_patience_s=0.0,
            lend_budget_s=LEND_BUDGET_S,
        )
        self.held.callback(self._scheduler.close)
        note_rules(self._queue, gate_rules, self._rules, self.now_ns())
        self._goals: dict[str, Any] = {}  # lease id -> goal handle; None while the goal is being sent
        self._sent_s: dict[str, float] = {}  # lease id -> when its goal was last sent
        self._running: dict[str, str] = {}  # robot -> permit that it says it is running
        self._serials: dict[str, int] = {}  # robot -> serial of the revocation list that it says it knows
        self._sessions: dict[str, tuple[str, Session]] = {}  # robot -> latest start that it signed, and its envelope
        self._complaints: dict[str, str] = {}  # robot -> why its last message does not count
        self._arms = {name: self._connect_robot(name) for name in self._rules.robots}
        halting = HaltService(folder, self.now_ns)
        self.held.callback(halting.close)
        self._heartbeat = self._publish_on(in_lab("/deployment/heartbeat"), topics.RECORDED)
        ranking = self.create_subscription(RankingMsg, in_lab("/ranking"), self._on_ranking, topics.LATEST)
        self.held.callback(self.destroy_subscription, ranking)
        for kind, name, act in (
            (SubmitStatement, in_lab("/deployment/statement"), self._on_statement),
            (GetDeployment, in_lab("/deployment/status"), self._on_status),
        ):
            service = create_service(self, kind, name, partial(self._answer, act))
            self.held.callback(self.destroy_service, service)

    def _store_of(self, robot: str) -> Path:
        return self._own_stores.get(robot, Path(self._settings.store))

    def note_refused(self, what: str) -> None:
        super().note_refused(what)
        self._statements.note_refusal(what)

    def start(self) -> None:
        self._ticked_s = time.monotonic()
        self._timer = create_steady_timer(self, self._settings.tick_s, self._tick)
        self._news_timer = create_steady_timer(self, NEWS_S, self._look_for_news)

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        self.destroy_timer(self._news_timer)

    def _look_for_news(self) -> None:
        """Act at once on a decision that `opc deploy` wrote into the queue."""
        if self._queue.has_news():
            self._tick()

    def _publish_on(self, topic: str, qos: Any) -> Any:
        publisher = self.create_publisher(String, topic, qos)
        self.held.callback(self.destroy_publisher, publisher)
        return publisher

    def _connect_robot(self, name: str) -> ActionClient:
        for kind, topic, act in (
            (RobotStatus, "robot/status", partial(self._on_robot, name)),
            (SafetyEvent, "safety/event", partial(self._on_safety, name)),
        ):
            qos = topics.LATEST if kind is RobotStatus else topics.RECORDED
            watch = self.create_subscription(kind, in_lab(f"/{name}/{topic}"), act, qos)
            self.held.callback(self.destroy_subscription, watch)
        client = ActionClient(self, RunEpisodes, in_lab(f"/{name}/run_episodes"))
        self.held.callback(client.destroy)
        return client

    def _ask_gate(self, request: Request, real: Mapping[str, RealResult], champion_id: str) -> Decision:
        return self._statements.decide(request, patience_s=0.0)

    def _tick(self) -> None:
        """Run the scheduler; end if it was shut out or its audit log is damaged, as robots then hold by themselves."""
        if not self.is_active:
            return
        now_s = time.monotonic()
        self.health.note_pause(max(0.0, now_s - self._ticked_s - self._settings.tick_s))
        self._ticked_s = now_s
        try:
            self._statements.note_evidence()
            self._follow(self._scheduler.tick())
        except (DiskFull, QueueEdited) as error:
            # Nothing new is leased, and robots hold by themselves; the next tick tries again.
            self.get_logger().error(str(error), throttle_duration_sec=30.0)
        except DeploymentError as error:
            self.get_logger().fatal(str(error))
            self.finish(1)

    def _follow(self, orders: Orders) -> None:
        self._heartbeat.publish(String(data=str(self._queue.fact("epoch"))))
        for lease in orders.cancel:
            handle = self._goals.get(lease.id)
            if handle is not None:
                handle.cancel_goal_async()
        # Also send a revoked lease whose goal handle died with an earlier scheduler: the robot's refusal confirms it.
        # Send a lost lease once the robot knows that it is revoked: the robot answers from its journal, and runs none
        # of it.
        serial = self._queue.fact("revocation_serial")
        settle = [lease for lease in orders.settle if self._serials.get(lease.robot, -1) >= serial]
        for lease in (*orders.send, *orders.cancel, *settle):
            if lease.id not in self._goals or self._is_unanswered(lease):
                self._send(lease)

    def _is_unanswered(self, lease: Lease) -> bool:
        """Whether to ask again, as an answer may be lost; the robot answers from its journal, or says it is busy."""
        patience_s = self._rules.lease.heartbeat_s
        is_long_ago = time.monotonic() - self._sent_s[lease.id] > patience_s
        return is_long_ago and self._running.get(lease.robot) != lease.permit_id

    def _send(self, lease: Lease) -> None:
        client = self._arms[lease.robot]
        if not client.server_is_ready():
            return
        request = self._queue.request(lease.request_id)
        goal = RunEpisodes.Goal(
            permit=permit_to_msg(from_text(lease.permit)),
            candidate_path=request.path,
            seed=lease.seq * 1000,
            lease_id=lease.id,
        )
        self._goals[lease.id] = None
        self._sent_s[lease.id] = time.monotonic()
        client.send_goal_async(goal).add_done_callback(partial(self._on_accepted, lease.id))

    def _on_accepted(self, lease_id: str, future: Future) -> None:
        handle = future.result()
        if handle is None or not handle.accepted:
            self._goals.pop(lease_id, None)
            return
        self._goals[lease_id] = handle
        self._note(lambda: self._scheduler.begin(lease_id))
        handle.get_result_async().add_done_callback(partial(self._on_result, lease_id))

    def _on_result(self, lease_id: str, future: Future) -> None:
        self._goals.pop(lease_id, None)
        answer = future.result()
        if answer is None or answer.result.end == RunEpisodes.Result.BUSY:
            return
        self._note(lambda: self._collect(lease_id, answer.result))
        self._tick()

    def _collect(self, lease_id: str, result: RunEpisodes.Result) -> None:
        """Count what the robot signed; ignore anything else, and ask the robot again."""
        lease = self._queue.lease(lease_id)
        if lease is None:
            return
        try:
            signed = open_result(result.envelope, lease.robot, lease_id, load_people(self._folder.keys))
        except OpcError as error:
            self._goals[lease_id] = None
            self._statements.note_refusal(f"lease {lease_id}: {error}", "result_refused")
            return
        self._scheduler.keep_result(lease, result.envelope)
        for episode in signed.episodes:
            is_success = SUCCESSES.get(episode.outcome)
            self._scheduler.report(lease_id, episode.episode_id, is_success, episode.safety_events, episode.recording)
        self._scheduler.end(lease_id, signed.message, is_refused=signed.end == RunEpisodes.Result.REFUSED)

    def _note(self, act: Callable[[], None]) -> None:
        """Record what a robot said; if that fails, the robot will be asked again from its journal."""
        try:
            act()
        except (DiskFull, QueueEdited) as error:
            self.get_logger().error(str(error), throttle_duration_sec=30.0)
        except DeploymentError as error:
            self.get_logger().fatal(str(error))
            self.finish(1)

    def _on_robot(self, name: str, status: RobotStatus) -> None:
        self._running[name] = status.permit_id
        self._serials[name] = status.revocation_serial
        session = self._session_of(name, status.session)
        is_ready = status.state in READY and session is not None
        if self._scheduler.hear(name, is_ready=is_ready, session=session.session if session else ""):
            self._tick()

    def _session_of(self, name: str, envelope: str) -> Session | None:
        """The latest start that this robot has signed; replaying an older one replaces nothing."""
        known = self._sessions.get(name)
        if known is None or known[0] != envelope:
            try:
                session = open_session(envelope, name, load_people(self._folder.keys))
            except OpcError as error:
                if self._complaints.get(name) != str(error):
                    self._complaints[name] = str(error)
                    self._note(partial(self._statements.note_refusal, str(error), "robot_refused_here"))
                return known[1] if known else None
            if known is None or session.started_ns > known[1].started_ns:
                self._sessions[name] = (envelope, session)
        return self._sessions[name][1]

    def _on_ranking(self, msg: RankingMsg) -> None:
        """Take a signed ranking at once, before its file has reached this machine."""
        if not msg.envelope:
            return
        try:
            self._gatekeeper.hear(Ranking.from_json(msg.document), msg.envelope)
        except OpcError as error:
            self._note(partial(self._statements.note_refusal, str(error), "ranking_refused"))

    def _on_safety(self, name: str, event: SafetyEvent) -> None:
        if event.kind == SafetyEvent.REFUSED:
            self._note(lambda: self._scheduler.refusal(name, event.detail))

    def _on_statement(self, request: Any, response: Any) -> None:
        outcome = self._statements.act_on(request.statement)
        response.message = outcome.message
        if outcome.request is not None:
            filed = outcome.request
            response.request_id, response.state, response.reason = filed.id, filed.state, filed.reason
            if outcome.decision is not None:
                response.decision = decision_to_msg(outcome.decision, filed.id, self.now_ns())
        self._tick()

    def _answer(self, act: Callable[[Any, Any], None], request: Any, response: Any) -> Any:
        """Fill in a response, or say why not in one line; every request gets an answer."""
        try:
            act(request, response)
            response.success = True
        except Exception as error:
            if not isinstance(error, OpcError):
                self.health.note_failure(error)
            response.success = False
            response.message = " ".join(str(error).split())
        return response

    def _on_status(self, request: Any, response: Any) -> None:
        status = describe_deployment(self._queue, self.now_ns(), request.request_id)
        status["deployment_id"] = self._deployment_id
        status["next"] = describe_next(self._scheduler.foresee())
        status["race"] = describe_race(self._queue, self._rules)
        if request.request_id:
            with suppress(OpcError):  # the evidence may be unreadable now while the request is not
                decision = self._statements.decide(self._queue.request(request.request_id), patience_s=0.0)
                status["findings"] = [asdict(finding) for finding in decision.findings]
        response.status_json = json.dumps(status)


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(SchedulerNode, argv)


if __name__ == "__main__":
    sys.exit(main())
