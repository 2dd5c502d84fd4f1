"""Attacks on the only way to an arm, over DDS and at its socket: joints stay still, and an audit log says why."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import RobotStatus, SafetyEvent
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Header, String
from trajectory_msgs.msg import JointTrajectory

from opc_ros.deployment.arm_lease import LeaseRequest, sign_drive, write_lease_request
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.people import add_person
from opc_ros.deployment.permit import Revocations, sign_revocations
from opc_ros.ros import convert, topics
from opc_ros.ros import lease_socket as wire
from tests.deployment.lab import SECOND
from tests.ros.attack_rig import STILL_RAD, Rig
from tests.ros.commander import (
    Commander,
    drive_request,
    permit_request,
    robots_key,
    turn,
    wait_for_line,
    wait_until_it_moves,
)
from tests.ros.releasing import release
from tests.ros.twin_rig import PATIENCE_S, ROBOT, SETTINGS, Watcher

pytestmark = pytest.mark.ros
GUARDS_PATIENCE_S = 4.0
CONTROLLER = "joint_trajectory_controller/joint_trajectory"


def test_an_operators_signed_word_moves_the_arm_once(rig: Rig) -> None:
    """What all the others are denied: without this, an arm that never moves would pass every test below."""
    start_rad = rig.watcher.joints[-1].position[0]
    request = drive_request(rig)
    with closing(Commander(rig)) as commander:
        assert commander.show(request, robots_key(rig)) == ""
        assert commander.follow(turn(rig)) == ""
        rig.watcher.wait_until(lambda: abs(rig.watcher.joints[-1].position[0] - start_rad) > 0.1)
        assert commander.command(wire.END) == b""
        # Repeated, it is worth nothing: neither on this connection nor on another.
        assert "was acted on already" in commander.show(request, robots_key(rig))
    rig.watcher.wait_for_rest()


def test_no_topic_of_the_labs_domain_moves_the_arm(rig: Rig) -> None:
    """Trajectories with heartbeats of its own, to the names that the driver uses."""
    node, count = rig.watcher.node, len(rig.robots_lines())
    trajectories = node.create_publisher(JointTrajectory, CONTROLLER, 10)
    heartbeats = node.create_publisher(Header, "heartbeat", 10)
    rig.watcher.wait_until(lambda: trajectories.get_subscription_count() > 0)
    assert {info.node_name for info in node.get_subscriptions_info_by_topic(trajectories.topic_name)} == {"arm_gateway"}
    assert not node.get_subscriptions_info_by_topic(heartbeats.topic_name)
    with rig.still():
        for _ in range(20):
            heartbeats.publish(convert.header(time.time_ns(), ROBOT))
            trajectories.publish(turn(rig))
        wait_for_line(rig, count, "no topic of the lab's domain moves this arm")
        rig.watcher.wait_for_event(SafetyEvent.REFUSED, CONTROLLER)
    services = {name for name, _ in node.get_service_names_and_types()}
    assert not [name for name in services if name.endswith("/lay_out") or "/twin/" in name]


def test_no_topic_of_the_labs_domain_moves_the_gripper(rig: Rig) -> None:
    count, openings = len(rig.robots_lines()), []
    node = rig.watcher.node
    node.create_subscription(JointState, "gripper/joint_states", lambda msg: openings.append(msg.position[0]), 10)
    rig.watcher.wait_until(lambda: bool(openings))
    gripper = node.create_publisher(Float64, "gripper/command", 10)
    rig.watcher.wait_until(lambda: gripper.get_subscription_count() > 0)
    for opening in (0.0, 0.08, 0.04):
        gripper.publish(Float64(data=opening))
    wait_for_line(rig, count, "gripper/command: no topic")
    seen = len(openings)
    rig.watcher.wait_until(lambda: len(openings) > seen + 20)
    assert np.ptp(openings) < STILL_RAD


@pytest.mark.parametrize("topic", ["joint_states", "gripper/joint_states"])
def test_while_somebody_else_offers_the_drivers_topics_nothing_moves(rig: Rig, topic: str) -> None:
    count = len(rig.robots_lines())
    node = rig.watcher.node
    msg = turn(rig)
    with closing(Commander(rig)) as commander:
        commander.drive()
        liar = node.create_publisher(JointState, topic, 10)
        try:
            wait_for_line(rig, count, f"2 publishers of /{ROBOT}/{topic} in the lab's domain, expected one")
            liar.publish(JointState(name=list(SETTINGS.joint_names), position=[0.0] * 7))
            assert f"2 publishers of /{ROBOT}/{topic}" in commander.follow(msg)
        finally:
            rig.watcher.act(lambda: node.destroy_publisher(liar))
        rig.watcher.wait_until(lambda: node.count_publishers(topic) == 1)
        rig.watcher.wait_for_rest()
        # And once the impostor is gone, it moves again.
        rig.watcher.wait_until(lambda: commander.follow(turn(rig, by_rad=0.05)) == "")
    rig.watcher.wait_for_rest()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda rig: permit_request(rig, None), "no permit, no motion", id="no permit"),
        pytest.param(lambda rig: permit_request(rig, rig.issue_forged()), "forged or damaged", id="forged"),
        pytest.param(
            lambda rig: permit_request(rig, rig.issue(create_keys(rig.folder / "stranger"))),
            "does not trust",
            id="signed by a stranger",
        ),
        pytest.param(lambda rig: permit_request(rig, rig.issue_expired()), ": expired ", id="expired"),
        pytest.param(lambda rig: permit_request(rig, rig.issue(robot="arm2")), "is for robot arm2", id="another robot"),
        pytest.param(
            lambda rig: permit_request(rig, rig.issue(), candidate_id="0" * 64), "they changed", id="another candidate"
        ),
        pytest.param(lambda rig: permit_request(rig, rig.issue(), rung="full"), "is for rung reduced", id="faster"),
        pytest.param(
            lambda rig: permit_request(rig, rig.issue(), session="f" * 32), "another start", id="another start"
        ),
        pytest.param(lambda rig: drive_request(rig, robot="arm2"), "is for robot 'arm2'", id="drive another robot"),
        pytest.param(
            lambda rig: drive_request(rig, now_ns=time.time_ns() - 3600 * SECOND), "too old", id="drive an hour ago"
        ),
    ],
)
def test_an_invalid_permission_opens_nothing(rig: Rig, make: Callable[[Rig], LeaseRequest], reason: str) -> None:
    count = len(rig.robots_lines())
    with rig.still(), closing(Commander(rig)) as commander:
        assert reason in commander.show(make(rig), robots_key(rig))
        assert "no lease, no motion" in commander.follow(turn(rig))
    wait_for_line(rig, count, reason)


def test_a_revoked_permit_opens_nothing_and_ends_what_it_had_opened(rig: Rig) -> None:
    revoke = rig.watcher.node.create_publisher(String, "/deployment/revocations", topics.LATEST)
    rig.watcher.wait_until(lambda: revoke.get_subscription_count() >= 2)
    permit = rig.issue()
    name = json.loads(permit.payload)["content"]["permit_id"]
    with closing(Commander(rig)) as commander:
        assert commander.show(permit_request(rig, permit), robots_key(rig)) == ""
        assert commander.follow(turn(rig, speed=0.009)) == ""
        wait_until_it_moves(rig)
        revoke.publish(String(data=to_text(sign_revocations(Revocations(1, (name,)), rig.signer))))
        assert f"permit {name} was revoked" in commander.expect(wire.ENDED).decode()
        rig.watcher.wait_for_rest()
        with rig.still():
            assert f"permit {name}: was revoked" in commander.show(permit_request(rig, permit), robots_key(rig))


def test_a_lease_that_was_overheard_is_worth_nothing(rig: Rig) -> None:
    with closing(Commander(rig)) as commander:
        text = write_lease_request(
            dataclasses.replace(permit_request(rig, rig.issue()), challenge=commander.challenge), robots_key(rig)
        )
        assert commander.say_lease(text) == ""
        assert commander.command(wire.END) == b""
        assert "answers a different challenge" in commander.say_lease(text)
    count = len(rig.robots_lines())
    with rig.still(), closing(Commander(rig)) as thief:
        assert "answers a different challenge" in thief.say_lease(text)
        assert "no lease" in thief.follow(turn(rig))
    wait_for_line(rig, count, "answers a different challenge")


def test_only_a_commander_with_the_robots_key_and_the_operators_role_is_heard(rig: Rig) -> None:
    eve = create_keys(rig.folder / "eves")
    add_person(rig.folder / ROBOT / "keys", "eve", eve.private_key.public_key(), ("requester",))
    word = sign_drive("eve", eve, ROBOT, "for fun", time.time_ns())
    with rig.still(), closing(Commander(rig)) as commander:
        assert "eve is not an operator" in commander.show(LeaseRequest(ROBOT, "drive", word), robots_key(rig))
        assert "does not trust" in commander.show(drive_request(rig), eve)
        assert "is not signed with the key of robot" in commander.show(drive_request(rig), None)


def test_a_second_commander_waits_until_the_first_is_gone(rig: Rig) -> None:
    with closing(Commander(rig)) as first, closing(Commander(rig)) as second:
        first.drive()
        with rig.still():
            assert "the arm is held under drive by ada" in second.show(drive_request(rig), robots_key(rig))
            assert "no lease" in second.follow(turn(rig))
        first.close()
        rig.watcher.wait_until(lambda: second.show(drive_request(rig), robots_key(rig)) == "")


def test_a_stop_sent_in_the_labs_domain_holds_the_arm_at_once(rig: Rig) -> None:
    stop = rig.watcher.node.create_publisher(Bool, "stop", topics.LATEST)
    rig.watcher.wait_until(lambda: stop.get_subscription_count() >= 2)
    with closing(Commander(rig)) as commander:
        commander.drive()
        assert commander.follow(turn(rig, by_rad=1.0, speed=0.05)) == ""
        wait_until_it_moves(rig)
        stop.publish(Bool(data=True))
        rig.watcher.wait_for_event(SafetyEvent.STOP, "stopped by the topic stop")
        rig.watcher.wait_for_rest()
        with rig.still():
            commander.follow(turn(rig))
    release(ROBOT, rig.folder / "deployment" / "keys")
    rig.watcher.wait_for_event(SafetyEvent.RELEASED)


def test_when_the_gateway_is_killed_the_guard_holds_the_arm_and_every_lease_is_gone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = dict.fromkeys(
        ("heartbeat_timeout_s", "measurement_timeout_s", "hold_age_s", "stamp_tolerance_s"), GUARDS_PATIENCE_S
    )
    guard = rig.start("arm_guard", f"/{ROBOT}", {"arm_config": rig.folder / "arm.yaml", **patience}, rig.arm_domain)
    with monkeypatch.context() as inside:
        inside.setenv("ROS_DOMAIN_ID", str(rig.arm_domain))
        watcher = Watcher()  # in the arm's own domain, because nothing leaves it without a gateway
    watcher.wait_for_guard(RobotStatus.IDLE)
    with closing(Commander(rig)) as commander:
        commander.drive()
        commander.beat_until(watcher, lambda: watcher.guard_statuses[-1].state == RobotStatus.RUNNING)
        watcher.wait_until(lambda: bool(watcher.joints))
        start_rad = watcher.joints[-1].position[0]
        assert commander.follow(turn(rig, by_rad=1.0, speed=0.04)) == ""
        rig.gateway.send_signal(signal.SIGKILL)
        rig.gateway.wait(PATIENCE_S)
        with pytest.raises((AssertionError, OSError)):
            commander.expect(wire.ENDED)
    watcher.wait_for_event(SafetyEvent.WATCHDOG, "heartbeats: none for")
    watcher.wait_for_rest()
    # By itself it would have continued for 17 s.
    assert abs(watcher.joints[-1].position[0] - start_rad) < 0.9
    watcher.close()
    guard.terminate()
    guard.wait(PATIENCE_S)
    rig.gateway = rig.start("arm_gateway", f"/{ROBOT}", rig.gateway_parameters())
    rig.watcher.wait_until(lambda: can_connect(rig.socket_folder))
    joints = len(rig.watcher.joints)
    rig.watcher.wait_until(lambda: len(rig.watcher.joints) > joints + 20)
    with rig.still(), closing(Commander(rig)) as commander:
        assert "no lease" in commander.follow(turn(rig))


@pytest.mark.parametrize("program", ["policy_runner", "arm_gateway"])
def test_a_second_runner_or_gateway_of_a_robot_is_refused(rig: Rig, program: str, tmp_path: Path) -> None:
    """With the same state folder, and with a copy of it."""
    given = rig.gateway_parameters() if program == "arm_gateway" else rig.runner_parameters()
    for state in (rig.folder / ROBOT, tmp_path):
        second = rig.start(program, f"/{ROBOT}", given | {"state": state})
        assert second.wait(PATIENCE_S) == 1
        assert f"robot {ROBOT} has a {program} already" in rig.newest_log()
    assert can_connect(rig.socket_folder)


def can_connect(folder: Path) -> bool:
    try:
        wire.connect(folder).close()
    except Exception:
        return False
    return True
