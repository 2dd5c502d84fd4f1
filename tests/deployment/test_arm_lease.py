"""The gateway's own check of leases, without a gateway: what opens one, what does not, and what ends one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from opc_ros.deployment.arm_lease import (
    REFUSALS_A_MINUTE,
    REPEATS_A_MINUTE,
    SPARE_BEGINNINGS,
    LeaseDesk,
    LeaseRequest,
    sign_drive,
    write_lease_request,
)
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.audit_log import AuditHead, find_audit_log
from opc_ros.deployment.behaviour_permit import issue_behaviour_permit
from opc_ros.deployment.dsse import to_text
from opc_ros.deployment.keys import create_keys, export_public_keys
from opc_ros.deployment.permit import Permit, Revocations, Rung, sign_permit, sign_revocations
from opc_ros.deployment.signing import find_signer, make_machine_key, make_person_key
from opc_ros.errors import PermitRefused

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND
CHALLENGE = "c" * 32


class Lab:
    """A robot with keys, a desk and a clock that the test sets."""

    def __init__(self, folder: Path, *, has_key: bool = True) -> None:
        self.keys, self.state = folder / "keys", folder / "arm1"
        self.scheduler = create_keys(self.keys)
        make_person_key(self.keys, "ada")
        self.ada = find_signer(self.keys, self.keys / "ada.person.pem")
        trusted = self.state / "keys"
        self.robot = make_machine_key(trusted, "arm1", "robot", self.keys) if has_key else None
        export_public_keys(self.keys, trusted)
        self.now_ns = START
        self.open_desk()

    def open_desk(self) -> None:
        self.desk = LeaseDesk(
            "arm1",
            frozenset({Rung.REDUCED, Rung.FULL}),
            self.state / "keys",
            self.state,
            self.robot,
            reduced_speed=0.3,
            overtime_s=10.0,
            now=lambda: self.now_ns,
        )

    def permit(self, **changes: object) -> str:
        permit = Permit(
            permit_id="p1",
            lease_id="l1",
            candidate_id="a" * 64,
            robot="arm1",
            rung=Rung.REDUCED,
            episodes=2,
            issued_ns=START,
            expires_ns=START + 60 * SECOND,
            audit_head=AuditHead(),
            session="s" * 32,
        )
        return to_text(sign_permit(dataclasses.replace(permit, **changes), self.scheduler))  # type: ignore[arg-type]

    def request(self, **changes: object) -> LeaseRequest:
        request = LeaseRequest(
            "arm1", "permit", self.permit(), CHALLENGE, "a" * 64, "reduced", session="s" * 32, started_ns=7
        )
        return dataclasses.replace(request, **changes)  # type: ignore[arg-type]

    def write(self, **changes: object) -> str:
        return write_lease_request(self.request(**changes), self.robot)

    def drive(self, robot: str = "arm1") -> str:
        envelope = sign_drive("ada", self.ada.signer, robot, "to park it", self.now_ns)
        return self.write(leave="drive", envelope=envelope)

    def reasons(self) -> list[str]:
        path = find_audit_log(self.state)
        return [line.body["reason"] for line in read_audit_log(path)] if path.exists() else []


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_permit_in_order_opens_a_lease_at_the_speed_of_its_rung(lab: Lab) -> None:
    lease = lab.desk.open(lab.write(), CHALLENGE)
    assert (lease.holder, lease.speed) == ("permit p1", 0.3)
    # An episode that began in time may outlast its permit by the ten seconds allowed, and no longer.
    lab.now_ns = START + 69 * SECOND
    assert lab.desk.why_ended(lease) == ""
    lab.now_ns = START + 70 * SECOND
    assert lab.desk.why_ended(lease) == "permit p1: its time is over"
    assert lab.reasons() == []


def test_a_lease_ends_once_its_permit_is_revoked_also_after_a_restart(lab: Lab) -> None:
    lease = lab.desk.open(lab.write(), CHALLENGE)
    lab.desk.accept_revocations(to_text(sign_revocations(Revocations(1, ("p1",)), lab.scheduler)))
    assert lab.desk.why_ended(lease) == "permit p1 was revoked"
    lab.desk.close()
    lab.open_desk()
    with pytest.raises(PermitRefused, match="was revoked"):
        lab.desk.open(lab.write(), CHALLENGE)


def test_revocations_that_a_stranger_signed_revoke_nothing(lab: Lab, tmp_path: Path) -> None:
    lease = lab.desk.open(lab.write(), CHALLENGE)
    eve = create_keys(tmp_path / "eve")
    with pytest.raises(PermitRefused, match="does not trust"):
        lab.desk.accept_revocations(to_text(sign_revocations(Revocations(1, ("p1",)), eve)))
    assert lab.desk.why_ended(lease) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"robot": "arm2"}, "is for robot arm2, this is arm1"),
        ({"challenge": "d" * 32}, "answers a different challenge"),
        ({"challenge": ""}, "answers a different challenge"),
        ({"candidate_id": "b" * 64}, "is for candidate aaaaaaaaaaaa, the files have digest bbbbbbbbbbbb"),
        ({"rung": "full"}, "is for rung reduced, asked for full"),
        ({"rung": "turbo"}, "rung 'turbo' is not known"),
        ({"session": "t" * 32}, "is for another start of this robot"),
        ({"session": ""}, "an earlier start of this robot's runner"),
        ({"envelope": ""}, "no permit, no motion"),
        ({"envelope": "{}"}, "expected a DSSE envelope"),
        ({"leave": "behaviour"}, "signed with key"),
        ({"leave": "drive"}, "statement is of type"),
    ],
)
def test_what_is_not_in_order_is_refused_and_written_down(lab: Lab, changes: dict[str, object], reason: str) -> None:
    with pytest.raises(PermitRefused) as refused:
        lab.desk.open(lab.write(**changes), CHALLENGE)
    assert reason in str(refused.value)
    (line,) = lab.reasons()
    assert reason in line


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"payloadType": 3}', "[" * 5000])
def test_what_is_no_request_at_all_is_refused(lab: Lab, text: str) -> None:
    with pytest.raises(PermitRefused):
        lab.desk.open(text, CHALLENGE)


def test_a_runner_from_before_the_newest_start_is_refused(lab: Lab) -> None:
    lab.desk.open(lab.write(started_ns=9), CHALLENGE)
    with pytest.raises(PermitRefused, match="an earlier start"):
        lab.desk.open(lab.write(started_ns=8), CHALLENGE)


def test_a_permit_allows_its_number_of_episodes_and_no_more(lab: Lab) -> None:
    for _ in range(2 * 2 + SPARE_BEGINNINGS):
        lab.desk.open(lab.write(), CHALLENGE)
    lab.desk.close()
    lab.open_desk()  # a restart does not restore any
    with pytest.raises(PermitRefused, match="9 episodes have begun"):
        lab.desk.open(lab.write(), CHALLENGE)


def test_an_operators_word_counts_once_for_ten_minutes(lab: Lab) -> None:
    text = lab.drive()
    lease = lab.desk.open(text, CHALLENGE)
    assert lease.holder == "drive by ada"
    lab.desk.close()
    lab.open_desk()
    with pytest.raises(PermitRefused, match="was acted on already"):
        lab.desk.open(text, CHALLENGE)
    lab.now_ns += 600 * SECOND
    assert lab.desk.why_ended(lease) == "drive by ada: its time is over"
    with pytest.raises(PermitRefused, match="is for robot 'arm2'"):
        lab.desk.open(lab.drive("arm2"), CHALLENGE)


def test_a_behaviour_permit_opens_a_lease_for_its_policy_at_its_speed(lab: Lab) -> None:
    envelope = to_text(
        issue_behaviour_permit(
            lab.ada.signer,
            person="ada",
            robot="arm1",
            policy="blind_grasps",
            episodes=3,
            speed=0.4,
            now_ns=START,
            hours=1.0,
        )
    )
    lease = lab.desk.open(lab.write(leave="behaviour", envelope=envelope, policy="blind_grasps"), CHALLENGE)
    assert lease.speed == 0.4
    with pytest.raises(PermitRefused, match="is for policy blind_grasps, expected teleoperation"):
        lab.desk.open(lab.write(leave="behaviour", envelope=envelope, policy="teleoperation"), CHALLENGE)


def test_a_robot_without_a_key_takes_unsigned_requests_and_one_with_a_key_does_not(lab: Lab, tmp_path: Path) -> None:
    keyless = Lab(tmp_path / "first-day", has_key=False)
    assert keyless.desk.open(keyless.write(), CHALLENGE).holder == "permit p1"
    with pytest.raises(PermitRefused, match="is not signed with the key of robot arm1"):
        lab.desk.open(write_lease_request(lab.request(), None), CHALLENGE)
    with pytest.raises(PermitRefused, match="does not trust"):
        lab.desk.open(write_lease_request(lab.request(), create_keys(tmp_path / "eve")), CHALLENGE)


def test_whoever_knocks_all_day_fills_no_disk_and_hides_no_other_refusal(lab: Lab) -> None:
    for _ in range(3 * REFUSALS_A_MINUTE):
        with pytest.raises(PermitRefused):
            lab.desk.open("", CHALLENGE)
    assert len(lab.reasons()) == 1 + REPEATS_A_MINUTE
    for number in range(3 * REFUSALS_A_MINUTE):
        lab.desk.note_refusal(f"another reason {number}")
    assert len(lab.reasons()) == REFUSALS_A_MINUTE
    assert "another reason 0" in lab.reasons()
    lab.now_ns += 61 * SECOND
    with pytest.raises(PermitRefused):
        lab.desk.open("", CHALLENGE)
    assert len(lab.reasons()) == REFUSALS_A_MINUTE + 1
