"""Attacks over DDS on a real runner: each leaves the arm still and a line in the robot's audit log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

pytest.importorskip("rclpy")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from opc_interfaces.action import RunEpisodes
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from opc_ros.deployment.audit_log import AuditHead
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.permit import Rung
from tests.deployment.lab import SECOND
from tests.ros.attack_rig import Rig, assert_refused, spoil
from tests.ros.twin_rig import PATIENCE_S, ROBOT

pytestmark = pytest.mark.ros
HOUR_NS = 3600 * SECOND


def sign_as_stranger(rig: Rig) -> Signed:
    return rig.issue(create_keys(rig.folder / "stranger"))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda rig: None, "no permit, no motion", id="no permit"),
        pytest.param(lambda rig: rig.issue_forged(), "forged or damaged", id="forged"),
        pytest.param(sign_as_stranger, "does not trust", id="signed by a stranger"),
        pytest.param(lambda rig: rig.issue_expired(), ": expired ", id="expired"),
        pytest.param(lambda rig: rig.issue(robot="arm2"), "is for robot arm2", id="another robot"),
        pytest.param(lambda rig: rig.issue(rung=Rung.TWIN), "is for rung twin", id="another rung"),
        pytest.param(lambda rig: rig.issue(lease_id="other"), "is for another lease", id="another lease"),
    ],
)
def test_a_permit_that_is_not_in_order_moves_nothing(
    rig: Rig, make: Callable[[Rig], Signed | None], reason: str
) -> None:
    assert_refused(rig, make(rig), reason)


def test_a_candidate_changed_after_its_permit_moves_nothing(rig: Rig) -> None:
    folder = rig.copy_candidate("after-permit")
    permit = rig.issue()
    spoil(folder)
    assert_refused(rig, permit, "they changed, or belong to another", path=folder)


def test_a_candidate_changed_between_check_and_load_is_never_loaded(rig: Rig) -> None:
    """The files keep changing back and forth; what is loaded is what was checked, or nothing is loaded."""
    folder = rig.copy_candidate("meanwhile")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.wait(0.002):
            spoil(folder)

    attacker = threading.Thread(target=swap)
    attacker.start()
    count = len(rig.robots_lines())
    messages: list[str] = []
    try:
        with rig.still():
            deadline_s = time.monotonic() + PATIENCE_S
            # No scheduler runs yet, so a good candidate gets as far as being loaded, and then waits in vain.
            while not {"changed", "heard"} <= {word for message in messages for word in message.split()}:
                assert time.monotonic() < deadline_s, messages
                messages.append(rig.answer(rig.issue(), folder).message.replace(",", ""))
    finally:
        is_over.set()
        attacker.join()
    for each in messages:
        assert "they changed or belong to another" in each or "scheduler not heard from" in each, messages
    lines = rig.robots_lines()[count:]
    assert len(lines) == sum("they changed" in each for each in messages)


def test_a_clock_published_on_the_network_changes_nobodys_time(rig: Rig) -> None:
    """With use_sim_time requested and /clock an hour back or ten years ahead, permits follow the machine's clock."""
    for offset_ns in (-HOUR_NS, 10 * 365 * 24 * HOUR_NS):
        rig.clock_offset_ns = offset_ns
        try:
            rig.tell_time()
            assert "scheduler not heard from" in rig.answer(rig.issue(), lease_id="lease1").message
        finally:
            rig.clock_offset_ns = 0
    assert "scheduler not heard from" in rig.answer(rig.issue()).message


def test_lifecycle_and_parameters_of_a_runner_are_not_for_strangers(rig: Rig) -> None:
    """How a stranger's keys once got in: deactivate, clean up, set keys and allow_code, configure, activate."""
    count = len(rig.robots_lines())
    stranger = create_keys(rig.folder / "strangers-keys")
    with rig.still():
        for step in (
            Transition.TRANSITION_DEACTIVATE,
            Transition.TRANSITION_CLEANUP,
            Transition.TRANSITION_ACTIVE_SHUTDOWN,
        ):
            change = Transition(id=step)
            assert not rig.call(ChangeState, f"/{ROBOT}/policy_runner/change_state", transition=change).success
        for name, value in (
            ("keys", str(rig.folder / "strangers-keys")),
            ("allow_code", True),
            ("rungs", "full"),
            ("state", "/tmp"),
            ("use_sim_time", False),
        ):
            wish = [Parameter(name, value=value).to_parameter_msg()]
            (result,) = rig.call(SetParameters, f"/{ROBOT}/policy_runner/set_parameters", parameters=wish).results
            assert not result.successful, name
        result = rig.answer(rig.issue(stranger))
    assert "does not trust" in result.message
    told = [line.body["reason"] for line in rig.robots_lines()[count:]]
    assert sum("over the network" in reason for reason in told) >= 3


def test_a_permit_that_knows_less_of_the_audit_log_than_the_robot_moves_nothing(rig: Rig) -> None:
    assert "scheduler not heard from" in rig.answer(rig.issue(audit_head=AuditHead(7, "a" * 64))).message
    assert_refused(rig, rig.issue(audit_head=AuditHead(6, "b" * 64)), "this robot has seen 7")
    assert_refused(rig, rig.issue(audit_head=AuditHead(7, "b" * 64)), "or an old audit log was put back")
    rig.audit_head = AuditHead(7, "a" * 64)


def test_a_permit_for_an_earlier_start_of_the_robot_moves_nothing(rig: Rig) -> None:
    """So an old journal that is put back, or a second state folder for the same robot, spends nothing twice."""
    with rig.still():
        result = rig.answer(rig.issue(session="f" * 32))
    assert (result.end, result.episodes_run) == (RunEpisodes.Result.BROKEN_OFF, 0)
    assert "is for another start of this robot" in result.message
    assert "another start" in rig.robots_lines()[-1].body["reason"]
