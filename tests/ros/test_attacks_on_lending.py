"""Attacks over DDS on a real scheduler, and on an arm under a lease: nothing moves, nothing is counted."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import EpisodeEvent, RobotStatus, SafetyEvent
from opc_interfaces.msg import Ranking as RankingMsg
from opc_interfaces.srv import HaltDeployment, SubmitStatement
from rclpy.action import ActionServer
from std_msgs.msg import Bool, String

from opc_ros.deployment.audit_check import check_audit_log
from opc_ros.deployment.dsse import from_text, to_text
from opc_ros.deployment.journal import RunEpisode
from opc_ros.deployment.keys import create_keys, load_trusted_keys
from opc_ros.deployment.people import add_person
from opc_ros.deployment.robot_results import begin_session, sign_result
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, sign_ranking
from opc_ros.deployment.signing import find_signer, make_person_key
from opc_ros.deployment.statement import DecisionBody, RequestBody, RobotBody, sign_statement
from opc_ros.deployment.stop_release import sign_release
from opc_ros.policies.candidate import read_candidate
from opc_ros.ranking import Ranking
from opc_ros.ros import topics
from opc_ros.ros.stop_listener import ObeyedStop
from tests.deployment.lab import SECOND, publish_ranking, say
from tests.ros.attack_rig import FAKE, Rig, assert_refused, rewrite_ranking, spoil
from tests.ros.releasing import Releaser
from tests.ros.twin_rig import PATIENCE_S, ROBOT

pytestmark = pytest.mark.ros
HOUR_NS = 3600 * SECOND


@pytest.fixture(scope="module")
def scheduler(rig: Rig) -> subprocess.Popen[str]:
    """Runs from the first test that needs it; before that, a runner hears no scheduler and begins no episode."""
    process = rig.start_scheduler()
    rig.watcher.wait_until(lambda: any(line.kind == "scheduler_started" for line in rig.schedulers_lines()))
    return process


def request(rig: Rig) -> tuple[str, str, str]:
    """Request the candidate; returns the state it got, the gate's verdict and its reasons, from the audit log."""
    count = len(rig.schedulers_lines())
    with rig.still():
        ask = say(rig.folder, "request", RequestBody(read_candidate(rig.candidate.folder).id))
        answer = rig.call(SubmitStatement, "/deployment/statement", statement=ask)
    (line,) = [line for line in rig.schedulers_lines()[count:] if line.kind == "request"]
    assert answer.state == line.body["state"]
    return line.body["state"], line.body["verdict"], "; ".join(line.body["reasons"])


def test_a_candidate_changed_after_scoring_is_not_the_one_that_was_ranked(
    rig: Rig, scheduler: subprocess.Popen[str]
) -> None:
    folder = rig.candidate.folder
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    spoil(folder)
    try:
        state, verdict, reasons = request(rig)
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert (state, verdict) == ("refused", "fail")
    assert "is not among the 1 ranked" in reasons


def test_an_edited_ranking_lets_nobody_through(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    path = rig.folder / "ranking.json"
    kept = path.read_text()
    rewrite_ranking(path, snapshot_id="f" * 64)
    try:
        state, verdict, reasons = request(rig)
    finally:
        path.write_text(kept)
    assert (state, verdict) == ("refused", "fail")
    assert "was changed after the scorer signed it" in reasons


def submit(rig: Rig, statement: str, reason: str) -> None:
    """Submit a statement; it is refused, the arm stays still, and the audit log says why."""
    count = len(rig.schedulers_lines())
    with rig.still():
        answer = rig.call(SubmitStatement, "/deployment/statement", statement=statement)
    assert (answer.success, reason in answer.message) == (False, True), answer.message
    lines = [line for line in rig.schedulers_lines()[count:] if line.kind == "statement_refused"]
    assert [reason in line.body["reason"] for line in lines] == [True]


def test_what_nobody_signed_is_refused_whoever_it_names(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    body = RequestBody(rig.candidate.id)
    eve = create_keys(rig.folder / "eve")
    now_ns = time.time_ns()
    good = say(rig.folder, "resume", RobotBody(ROBOT, "dusted"))
    forged = from_text(good)
    submit(rig, "", "nobody has signed this: sign it with `opc deploy`")
    submit(rig, '{"halt": false}', "statement cannot be read")
    for kind, content in (
        ("request", body),
        ("override", DecisionBody("r1", "trust me")),
        ("resume", RobotBody(ROBOT)),
    ):
        submit(rig, sign_statement(kind, "ada", content, eve, now_ns), "is not signed by ada")
    submit(rig, sign_statement("request", "eve", body, eve, now_ns), "nobody here is called 'eve'")
    submit(rig, to_text(replace(forged, payload=forged.payload.replace("dusted", "rusted"))), "is not signed by ada")
    submit(rig, say(rig.folder, "resume", RobotBody(ROBOT), now_ns - 600 * SECOND), "too old: sign it again")


def test_a_statement_that_was_overheard_is_not_acted_on_twice(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    overheard = say(rig.folder, "resume", RobotBody(ROBOT, "dusted"))
    assert rig.call(SubmitStatement, "/deployment/statement", statement=overheard).success
    rig.call(HaltDeployment, "/deployment/halt", robot=ROBOT, person="bob", reason="smoke")
    submit(rig, overheard, "was acted on already")
    again = say(rig.folder, "resume", RobotBody(ROBOT, "no smoke"))
    assert rig.call(SubmitStatement, "/deployment/statement", statement=again).success


def test_a_requester_does_not_approve(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    keys = rig.folder / "deployment" / "keys"
    bob = create_keys(rig.folder / "bob")
    add_person(keys, "bob", bob.private_key.public_key(), ("requester",))
    word = sign_statement("override", "bob", DecisionBody("r1", "trust me"), bob, time.time_ns())
    submit(rig, word, "bob is not an approver")


def test_an_override_written_into_the_database_gets_no_permit(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    path = rig.folder / "ranking.json"
    kept = path.read_text()
    rewrite_ranking(path, snapshot_id="f" * 64)
    count = len(rig.schedulers_lines())
    with rig.still():
        try:
            ask = say(rig.folder, "request", RequestBody(rig.candidate.id))
            answer = rig.call(SubmitStatement, "/deployment/statement", statement=ask)
            assert answer.state == "refused"
            with closing(sqlite3.connect(rig.folder / "deployment" / "queue.db")) as database, database:
                change = "UPDATE requests SET state = 'queued', approval = 'override', approved_by = 'ada' WHERE id = ?"
                database.execute(change, (answer.request_id,))

            def refused() -> bool:
                lines = [line for line in rig.schedulers_lines()[count:] if line.kind == "gate_closed"]
                return any("override by ada, but" in reason for line in lines for reason in line.body["reasons"])

            rig.watcher.wait_until(refused)
        finally:
            path.write_text(kept)
    assert not any(line.kind == "permit" for line in rig.schedulers_lines()[count:])
    reject = say(rig.folder, "reject", DecisionBody(answer.request_id, "nobody overrode it"))
    assert rig.call(SubmitStatement, "/deployment/statement", statement=reject).success


def test_a_ranking_that_a_stranger_signed_or_of_one_candidate_lets_nobody_through(
    rig: Rig, scheduler: subprocess.Popen[str]
) -> None:
    path = rig.folder / "ranking.json"
    envelope = path.with_name(ENVELOPE_NAME)
    kept = path.read_text(), envelope.read_text()
    ranking = Ranking.from_json(kept[0])
    eve = create_keys(rig.folder / "eves-scorer")
    try:
        envelope.write_text(sign_ranking(ranking, eve, time.time_ns()))
        path.touch()
        assert "is not signed by a scorer that is known here" in request(rig)[2]
        part = replace(ranking, scope="selection")
        publish_ranking(path, part)
        assert "expected the whole registry" in request(rig)[2]
        # Nor on the topic, on which the scheduler also receives rankings.
        count = len(rig.schedulers_lines())
        topic = rig.watcher.node.create_publisher(RankingMsg, "/ranking", topics.LATEST)
        topic.publish(RankingMsg(document=kept[0], envelope=sign_ranking(ranking, eve, time.time_ns())))
        rig.watcher.wait_until(lambda: any(line.kind == "ranking_refused" for line in rig.schedulers_lines()[count:]))
    finally:
        path.write_text(kept[0])
        envelope.write_text(kept[1])


def test_a_robot_that_somebody_plays_counts_nothing(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    """A stranger offers the robot's action as well, answers first, and invents successes."""
    count = len(rig.schedulers_lines())
    eve = create_keys(rig.folder / "eves-robot")
    asked: list[str] = []

    def invent(goal: Any) -> RunEpisodes.Result:
        lease = goal.request.lease_id
        asked.append(lease)
        goal.succeed()
        episodes = [RunEpisode(n, f"{lease}-{n:03d}", "success", 0) for n in range(2)]
        envelope = sign_result(ROBOT, lease, RunEpisodes.Result.DONE, "", episodes, eve, time.time_ns())
        ids = [episode.episode_id for episode in episodes]
        return RunEpisodes.Result(
            success=True, episode_ids=ids, outcomes=[2, 2, 2], episode_safety_events=[0], envelope=envelope
        )

    with rig.still():
        server = ActionServer(rig.watcher.node, RunEpisodes, f"/{FAKE}/run_episodes", execute_callback=invent)
        status = rig.watcher.node.create_publisher(RobotStatus, f"/{FAKE}/robot/status", topics.LATEST)
        _, session = begin_session(FAKE, eve, time.time_ns())
        rig.watcher.node.create_timer(
            0.2, lambda: status.publish(RobotStatus(robot=FAKE, state=RobotStatus.IDLE, session=session))
        )

        def refused() -> bool:
            return any(
                "not signed with its key" in line.body["reason"]
                for line in rig.schedulers_lines()[count:]
                if line.kind in ("robot_refused_here", "result_refused")
            )

        rig.watcher.wait_until(refused)
    # A robot whose start is not signed gets no lease, and what it invents is counted nowhere.
    assert asked == []
    assert not any(line.kind in ("episode", "permit") for line in rig.schedulers_lines()[count:])
    rig.watcher.act(server.destroy)


def test_a_second_scheduler_ends_at_once(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    with rig.still():
        assert rig.start_scheduler().wait(PATIENCE_S) == 1
    assert "second_scheduler_refused" in [line.kind for line in rig.schedulers_lines()]


def test_a_permit_replayed_after_its_budget_moves_nothing_and_a_stop_names_the_episode(
    rig: Rig, scheduler: subprocess.Popen[str]
) -> None:
    permit = rig.issue(lease_id="spent")
    releaser = Releaser(rig.watcher.node, ROBOT, rig.folder / "deployment" / "keys")
    stop = rig.watcher.node.create_publisher(Bool, "stop", topics.LATEST)
    running = rig.send(permit, lease_id="spent")
    rig.watcher.wait_until(lambda: any(event.kind == EpisodeEvent.BEGIN for event in rig.episode_events))
    rig.watcher.wait_until(lambda: max(map(abs, rig.watcher.joints[-1].velocity)) > 1e-3)
    rig.watcher.wait_until(lambda: {"arm", "arm_gateway"} <= rig.publishers("safety/event"))
    stop.publish(Bool(data=True))
    rig.watcher.wait_until(running.done)
    result = running.result().result
    assert (result.end, result.episodes_run) == (RunEpisodes.Result.BROKEN_OFF, 1)

    # Twin and runner each report what was stopped, in which episode.
    def told() -> list[str]:
        return [event.episode_id for event in rig.watcher.events if event.kind == SafetyEvent.STOP]

    rig.watcher.wait_until(lambda: len(told()) == 2)
    assert told() == ["spent-000"] * 2

    def is_released() -> bool:
        releaser.release()
        return any(line.kind == "stop_released" for line in rig.robots_lines())

    rig.watcher.wait_until(is_released)
    rig.wait_for_runner(RobotStatus.IDLE)
    rig.watcher.wait_for_event(SafetyEvent.RELEASED, "ada signed the release")
    rig.watcher.wait_for_rest()

    count = len(rig.robots_lines())
    with rig.still():
        again = rig.answer(permit, lease_id="spent")
    assert list(again.episode_ids) == ["spent-000"]
    assert [line.kind for line in rig.robots_lines()[count:]] == ["asked_again"]
    content = json.loads(permit.payload)["content"]
    reissued = rig.issue(permit_id=content["permit_id"], lease_id="fresh")
    assert_refused(rig, reissued, "all 1 episodes are spent", lease_id="fresh")
    assert check_audit_log(rig.folder / ROBOT / "audit.jsonl", None).is_whole


def test_a_stop_stays_whatever_strangers_say_and_overheard_releases_lift_nothing_twice(rig: Rig) -> None:
    watcher, keys = rig.watcher, rig.folder / "deployment" / "keys"
    ada = find_signer(keys, keys / "ada.person.pem")
    signed: dict[int, str] = {}  # stop -> its release

    def hear_stop(msg: String) -> None:
        if (said := ObeyedStop.from_msg(msg)) is not None and said.stop_ns:
            signed.setdefault(said.stop_ns, "")

    watcher.node.create_subscription(String, "stop_id", hear_stop, topics.STOPS)
    stop = watcher.node.create_publisher(Bool, "stop", topics.LATEST)
    releases = watcher.node.create_publisher(String, "release", topics.RELEASES)
    stop.publish(Bool(data=True))
    watcher.wait_for_state(RobotStatus.STOPPED)
    rig.wait_for_runner(RobotStatus.STOPPED)
    stranger = make_person_key(rig.folder / "strangers", "ada")

    def is_refused(say: Callable[[], object], words: str) -> None:
        count = len(watcher.events)
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(e.kind == SafetyEvent.REFUSED and words in e.detail for e in watcher.events[count:]):
            assert time.monotonic() < deadline_s, f"nobody refused it: {words}"
            say()
            with suppress(AssertionError):
                watcher.wait_until(lambda: len(watcher.events) > count, deadline_s=0.5)
        assert watcher.statuses[-1].state == rig.statuses[-1].state == RobotStatus.STOPPED

    is_refused(lambda: stop.publish(Bool(data=False)), "`false` on the topic stop lifts nothing")
    is_refused(lambda: releases.publish(String(data="please")), "statement cannot be read")
    forged = sign_release(stranger, ROBOT, 2**63, time.time_ns())
    is_refused(lambda: releases.publish(String(data=forged)), "is not signed by ada")

    def release_all() -> bool:
        for stop_ns in [each for each in signed if not signed[each]]:
            signed[stop_ns] = sign_release(ada, ROBOT, stop_ns, time.time_ns())
            releases.publish(String(data=signed[stop_ns]))
        return watcher.statuses[-1].state == RobotStatus.IDLE

    watcher.wait_until(release_all)
    rig.wait_for_runner(RobotStatus.IDLE)
    overheard = list(filter(None, signed.values()))
    stop.publish(Bool(data=True))
    watcher.wait_for_state(RobotStatus.STOPPED)

    def replay() -> None:
        for each in overheard:
            releases.publish(String(data=each))

    is_refused(replay, "was acted on already")
    watcher.wait_until(release_all)
    watcher.act(lambda: watcher.node.destroy_publisher(stop))
    assert any("release refused" in line.body.get("reason", "") for line in rig.robots_lines())


def test_an_edited_audit_log_ends_all_leasing(rig: Rig, scheduler: subprocess.Popen[str]) -> None:
    scheduler.terminate()
    assert scheduler.wait(PATIENCE_S) == 0
    audit_log = rig.folder / "deployment" / "audit.jsonl"
    assert check_audit_log(audit_log, load_trusted_keys(rig.folder / "deployment" / "keys")).is_whole
    text = audit_log.read_text()
    assert '"epoch":1' in text
    audit_log.write_text(text.replace('"epoch":1', '"epoch":7'))
    with rig.still():
        assert rig.start_scheduler().wait(PATIENCE_S) == 1
    assert rig.schedulers_lines()[-1].kind == "audit_log_damaged"
