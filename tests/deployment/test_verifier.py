"""Attacks on a robot: each leaves the permit unused and a line in the robot's audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log
from opc_ros.deployment.dsse import Signed, from_text, to_text
from opc_ros.deployment.keys import PUBLIC_SUFFIX, Signer, create_keys, load_trusted_keys
from opc_ros.deployment.permit import (
    Permit,
    Revocations,
    Rung,
    open_permit,
    sign_permit,
    sign_revocations,
)
from opc_ros.errors import PermitRefused
from tests.deployment.clock import SECOND, Clock
from tests.deployment.conftest import CANDIDATE, Robot

Issue = Callable[..., Signed]


def refuse(robot: Robot, signed: Signed | None, match: str, *, candidate: str = CANDIDATE, rung: Rung = Rung.REDUCED):
    lines_before = robot.audit_log.head().entries
    with pytest.raises(PermitRefused, match=match):
        robot.verifier.check(signed, candidate, rung)
    last = list(read_audit_log(robot.audit_log.path))[-1]
    assert robot.audit_log.head().entries == lines_before + 1
    assert last.kind == "refused"
    assert not robot.journal.episodes_of("lease1")


def test_a_good_permit_allows_its_budget_and_not_one_more(robot: Robot, issue: Issue) -> None:
    permit = robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)
    slots = [robot.verifier.begin_episode(permit) for _ in range(3)]
    assert [slot.episode_id for slot in slots] == ["lease1-000", "lease1-001", "lease1-002"]
    with pytest.raises(PermitRefused, match="all 3 episodes are spent"):
        robot.verifier.begin_episode(permit)


def test_no_permit_is_refused(robot: Robot) -> None:
    refuse(robot, None, "no permit, no motion")
    refuse(robot, Signed("", b"", "", ""), "no permit, no motion")


def test_a_permit_signed_by_a_stranger_is_refused(robot: Robot, permit: Permit, tmp_path: Path) -> None:
    refuse(robot, sign_permit(permit, create_keys(tmp_path / "stranger")), "does not trust")


def test_a_permit_under_a_trusted_name_with_a_strangers_signature_is_refused(
    robot: Robot, permit: Permit, signer: Signer, tmp_path: Path
) -> None:
    stranger = create_keys(tmp_path / "stranger")
    forged = sign_permit(permit, Signer(signer.key_id, stranger.private_key))
    refuse(robot, forged, "forged or damaged")


def test_a_permit_whose_text_was_changed_is_refused(robot: Robot, issue: Issue) -> None:
    good = issue()
    changed = replace(good, payload=good.payload.replace('"episodes":3', '"episodes":9999'))
    assert changed.payload != good.payload
    refuse(robot, changed, "forged or damaged")


def test_a_signed_revocation_list_does_not_pass_for_a_permit(robot: Robot, signer: Signer) -> None:
    refuse(robot, sign_revocations(Revocations(1, ("p1",)), signer), "got a document of type")


def test_an_expired_permit_is_refused(robot: Robot, issue: Issue, clock: Clock) -> None:
    good = issue()
    clock.advance(601)
    refuse(robot, good, "expired 1 s ago")


def test_a_permit_for_another_robot_is_refused(robot: Robot, issue: Issue) -> None:
    refuse(robot, issue(robot="arm2"), "is for robot arm2, this is arm1")


@pytest.mark.parametrize("asked", [Rung.REDUCED, Rung.FULL])
def test_a_twin_permit_does_not_move_a_real_arm(robot: Robot, issue: Issue, asked: Rung) -> None:
    refuse(robot, issue(rung=Rung.TWIN), "is for rung twin", rung=asked)
    refuse(robot, issue(rung=Rung.TWIN), "serves reduced, full", rung=Rung.TWIN)


def test_a_reduced_speed_permit_does_not_allow_full_speed(robot: Robot, issue: Issue) -> None:
    refuse(robot, issue(), "is for rung reduced, asked for full", rung=Rung.FULL)


def test_files_with_another_digest_are_refused(robot: Robot, issue: Issue) -> None:
    refuse(robot, issue(), "they changed", candidate="b" * 64)


def test_a_spent_permit_stays_spent_after_a_restart(robot: Robot, issue: Issue) -> None:
    permit = robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)
    for _ in range(3):
        robot.verifier.begin_episode(permit)
    robot.restart()
    with pytest.raises(PermitRefused, match="all 3 episodes are spent"):
        robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)


def test_a_replay_with_a_deleted_journal_is_refused(robot: Robot, issue: Issue, clock: Clock) -> None:
    signed = issue()
    permit = robot.verifier.check(signed, CANDIDATE, Rung.REDUCED)
    robot.verifier.begin_episode(permit)
    for path in robot.folder.glob("journal.db*"):
        path.unlink()
    clock.advance(60)
    robot.restart()
    refuse(robot, signed, "older than this robot's journal")


def test_an_episode_the_runner_died_in_is_spent_and_counts_as_aborted(robot: Robot, issue: Issue) -> None:
    permit = robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)
    robot.verifier.begin_episode(permit)
    robot.restart()
    assert robot.journal.break_off_unfinished() == 1
    assert [episode.outcome for episode in robot.journal.episodes_of("lease1")] == ["aborted"]
    assert robot.verifier.episodes_left(permit) == 2


def test_a_clock_set_back_is_refused_even_after_a_restart(robot: Robot, issue: Issue, clock: Clock) -> None:
    signed = issue()
    clock.advance(599)
    robot.verifier.check(signed, CANDIDATE, Rung.REDUCED)
    clock.advance(-300)
    robot.restart()
    refuse(robot, signed, "clock was set back by 300 s")


def test_a_clock_set_back_before_the_permit_was_issued_is_refused(robot: Robot, issue: Issue, clock: Clock) -> None:
    signed = issue()
    clock.advance(-3600)
    refuse(robot, signed, "issued 3600 s from now")


def test_a_robot_first_started_with_a_clock_that_ran_ahead_serves_once_it_is_right(
    robot: Robot, permit: Permit, issue: Issue, tmp_path: Path
) -> None:
    new = Robot(tmp_path / "new", robot.keys, Clock(permit.issued_ns + 86_400 * SECOND))
    new.clock.advance(-86_400)
    new.verifier.begin_episode(new.verifier.check(issue(), CANDIDATE, Rung.REDUCED))
    new.clock.advance(-3600)
    with pytest.raises(PermitRefused, match=r"clock was set back by 3600 s"):  # it has seen a permit by now
        new.verifier.check(issue(), CANDIDATE, Rung.REDUCED)


def test_a_corrected_clock_is_accepted_on_a_persons_word_and_voids_old_permits(
    robot: Robot, issue: Issue, clock: Clock
) -> None:
    clock.advance(86_400)
    old = issue(issued_ns=clock(), expires_ns=clock() + 600 * SECOND)
    permit = robot.verifier.check(old, CANDIDATE, Rung.REDUCED)
    robot.verifier.begin_episode(permit)
    clock.advance(-86_400)
    robot.journal.accept_earlier_clock(clock())
    with pytest.raises(PermitRefused, match="issued"):
        robot.verifier.check(old, CANDIDATE, Rung.REDUCED)
    fresh = issue(permit_id="p2", issued_ns=clock())
    assert robot.verifier.check(fresh, CANDIDATE, Rung.REDUCED).permit_id == "p2"


def test_revocation_counts_at_once_also_within_an_episode(robot: Robot, issue: Issue, signer: Signer) -> None:
    signed = issue()
    permit = robot.verifier.check(signed, CANDIDATE, Rung.REDUCED)
    robot.verifier.begin_episode(permit)
    assert robot.verifier.why_to_stop(permit) is None
    assert robot.verifier.accept_revocations(sign_revocations(Revocations(1, ("p1",)), signer))
    assert robot.verifier.why_to_stop(permit) == "permit p1 was revoked"
    with pytest.raises(PermitRefused, match="was revoked"):
        robot.verifier.check(signed, CANDIDATE, Rung.REDUCED)


def test_an_older_revocation_list_cannot_bring_a_permit_back(robot: Robot, issue: Issue, signer: Signer) -> None:
    robot.verifier.accept_revocations(sign_revocations(Revocations(7, ("p1",)), signer))
    assert not robot.verifier.accept_revocations(sign_revocations(Revocations(6, ()), signer))
    refuse(robot, issue(), "was revoked")


def test_a_key_no_longer_trusted_ends_all_its_permits(robot: Robot, issue: Issue, signer: Signer) -> None:
    signed = issue()
    robot.verifier.check(signed, CANDIDATE, Rung.REDUCED)
    (robot.keys / f"{signer.key_id}{PUBLIC_SUFFIX}").unlink()
    refuse(robot, signed, "holds no")


def test_permits_survive_a_text_file_and_nothing_else_does(issue: Issue, permit: Permit, robot: Robot) -> None:
    assert open_permit(from_text(to_text(issue())), load_trusted_keys(robot.keys)) == permit
    for text in ("", "{}", '{"payload":1,"signature":"zz","key_id":""}', "[]"):
        with pytest.raises(PermitRefused, match="cannot be read"):
            from_text(text)


def test_a_permit_that_ends_before_it_begins_is_refused(robot: Robot, permit: Permit, signer: Signer) -> None:
    refuse(robot, sign_permit(replace(permit, expires_ns=permit.issued_ns), signer), "ends before it begins")
    refuse(robot, sign_permit(replace(permit, episodes=0), signer), "allows 0 episodes")


def test_a_robot_keeps_a_witness_of_the_schedulers_audit_log(robot: Robot, issue: Issue) -> None:
    robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)
    robot.restart()
    assert robot.journal.audit_witness().entries == 4


def test_the_robots_audit_log_of_refusals_is_whole(robot: Robot, issue: Issue) -> None:
    refuse(robot, None, "no permit")
    refuse(robot, issue(robot="arm2"), "arm2")
    assert check_audit_log(robot.audit_log.path, None).is_whole


def test_a_flood_of_refused_permits_fills_no_disk(robot: Robot, clock: Clock) -> None:
    for _ in range(200):
        with pytest.raises(PermitRefused):
            robot.verifier.check(None, CANDIDATE, Rung.REDUCED)
    assert len(list(read_audit_log(robot.audit_log.path))) == 120
    clock.advance(61.0)
    with pytest.raises(PermitRefused):
        robot.verifier.check(None, CANDIDATE, Rung.REDUCED)
    assert list(read_audit_log(robot.audit_log.path))[-1].body["not_written_before"] == "80"
