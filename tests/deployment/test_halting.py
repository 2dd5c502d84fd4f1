"""Which robots a halt covers, and which ones have to confirm it."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from opc_ros.deployment.approval_queue import decide_request
from opc_ros.deployment.decision import Decision, Verdict
from opc_ros.deployment.halting import as_text, enlist_robot, halt, obey_left_halts, resume
from opc_ros.errors import DeploymentError
from opc_ros.workflows.halting_robots import halt_robots
from tests.deployment.fleet import Fleet, say


def add_lease(fleet: Fleet, robot: str, state: str, expires_ns: int) -> None:
    fleet.queue.execute(
        "INSERT INTO leases (id, request_id, candidate_id, robot, rung, episodes, state, permit_id, permit, granted_ns,"
        " expires_ns) VALUES (?, 'r', 'c', ?, 'full', 1, ?, ?, '', 0, ?)",
        *(f"l-{robot}-{state}", robot, state, f"p-{robot}", expires_ns),
    )


def test_it_covers_robots_of_the_queue_and_all_that_were_ever_leased(fleet: Fleet) -> None:
    add_lease(fleet, "arm9", "done", fleet.clock())
    halted = halt(fleet.queue, "", "ada", "smoke", fleet.clock())
    assert halted.robots == ("arm1", "arm9", "twin")
    assert halted.awaited == ()
    assert {robot.halted_by for robot in fleet.queue.robots().values()} == {"ada: smoke"}


def test_whoever_holds_robot_time_or_was_lost_with_it_has_to_confirm(fleet: Fleet) -> None:
    later_ns = fleet.clock() + 1
    for robot, state in (("arm1", "running"), ("arm2", "lost"), ("arm3", "done")):
        add_lease(fleet, robot, state, later_ns)
    add_lease(fleet, "arm4", "lost", fleet.clock() - 1)  # its permit has expired, so it cannot move under it
    halted = halt(fleet.queue, "", "ada", "smoke", fleet.clock())
    assert (halted.awaited, halted.open_on) == (("arm1", "arm2"), ("arm1",))
    lease = fleet.queue.lease("l-arm1-running")
    assert lease is not None
    assert lease.state == "revoking"


def test_a_robot_that_comes_while_all_are_halted_is_halted_too(fleet: Fleet) -> None:
    halt(fleet.queue, "", "ada", "smoke", fleet.clock())
    with fleet.queue.change("robots", fleet.clock()):
        enlist_robot(fleet.queue, "arm5")
    assert fleet.queue.robots()["arm5"].halted_by == "ada: smoke"
    assert "arm5" in resume(fleet.queue, "", "ada", "aired", fleet.clock())
    with fleet.queue.change("robots", fleet.clock()):
        enlist_robot(fleet.queue, "arm6")
    assert not any(robot.halted_by for robot in fleet.queue.robots().values())


@pytest.mark.parametrize("what", ["halt", "reject"])
def test_what_a_person_says_while_the_gate_is_being_asked_comes_before_the_lease(fleet: Fleet, what: str) -> None:
    """In another program, with its own connection, after the scheduler has found that robot and request are free."""
    fleet.ask("a")

    def interrupt(*_: object) -> Decision:
        with closing(fleet.open_queue()) as other:
            if what == "halt":
                assert halt(other, "", "bob", "smoke", fleet.clock()).awaited == ()
            elif other.request("q-a").state == "queued":
                decide_request(other, "q-a", "reject", "bob", "not today", fleet.clock())
        return say(Verdict.PASS)

    fleet.verdict = interrupt
    for _ in range(3):
        fleet.round()
    assert fleet.queue.rows("SELECT * FROM leases") == []
    assert fleet.executed() == []
    assert "permit" not in fleet.kinds()
    if what == "halt":
        fleet.verdict = lambda *_: say(Verdict.PASS)
        resume(fleet.queue, "", "ada", "aired", fleet.clock())
        fleet.round()
        assert len(fleet.executed()) == 1


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_a_request_rejected_while_the_gate_closes_stays_rejected(fleet: Fleet, verdict: Verdict) -> None:
    fleet.ask("a")

    def interrupt(*_: object) -> Decision:
        with closing(fleet.open_queue()) as other:
            if other.request("q-a").state == "queued":
                decide_request(other, "q-a", "reject", "bob", "not today", fleet.clock())
        return say(verdict)

    fleet.verdict = interrupt
    fleet.round()
    assert fleet.queue.request("q-a").state == "rejected"
    assert "row_corrected" not in fleet.kinds()


def test_who_halts_all_day_with_a_book_of_reasons_fills_no_disk_and_nobody_hears_less(fleet: Fleet) -> None:
    halted = [halt(fleet.queue, "", "eve" * 10**6, "x" * 10**7, fleet.clock()) for _ in range(50)]
    lines = fleet.lines("halt")
    assert len(lines) == 20
    assert {len(line.body["reason"]) for line in lines} == {960 + len("... (10000 characters)")}
    assert fleet.queue.audit_log.path.stat().st_size < 20 * 3000 + 5000
    assert {each.robots for each in halted} == {("arm1", "twin")}
    assert halted[-1].serial == fleet.queue.fact("revocation_serial") == halted[19].serial
    resume(fleet.queue, "", "ada", "aired", fleet.clock())
    assert halt(fleet.queue, "", "ada", "smoke again", fleet.clock()).serial == halted[-1].serial + 1
    assert fleet.queue.robots()["arm1"].halted_by == "ada: smoke again"


def test_no_robot_is_invented(fleet: Fleet) -> None:
    with pytest.raises(DeploymentError, match="'arm7': not one of this deployment, which knows arm1, twin"):
        halt(fleet.queue, "arm7", "ada", "smoke", fleet.clock())
    assert set(fleet.queue.robots()) == {"arm1", "twin"}


def test_each_halt_has_a_serial_of_its_own_so_that_an_old_confirmation_does_not_count(fleet: Fleet) -> None:
    first = halt(fleet.queue, "", "ada", "smoke", fleet.clock())
    assert halt(fleet.queue, "arm1", "ada", "smoke", fleet.clock()).serial > first.serial


def test_a_reason_that_is_not_utf8_is_kept_as_escapes() -> None:
    assert as_text(b"smoke \xff".decode("utf-8", "surrogateescape")) == "smoke \\udcff"


def test_a_halt_reaches_robots_though_another_program_hangs_on_the_queue(fleet: Fleet) -> None:
    add_lease(fleet, "arm1", "running", fleet.clock() + 10**12)
    told: list[str] = []

    class Call:
        """A robot that does what it is told."""

        def __enter__(self) -> Call:
            return self

        def __exit__(self, *_: object) -> None: ...

        def tell(self, revocations: str) -> None:
            told.append(revocations)

        def wait(self, serial: int, revoked: frozenset[str], given_back: object, timeout_s: float) -> frozenset[str]:
            assert revoked == {"p-arm1"}
            return frozenset({"arm1"})

    with fleet.queue.change("hangs", fleet.clock()):  # holds the queue for as long as it likes
        state = fleet.folder / "state"
        shutil.copytree(fleet.keys, state / "keys")
        result = halt_robots(state, "", "ada", "smoke", 1.0, lambda robots: Call())
        assert (result.halted, result.confirmed, result.is_written) == (("arm1", "twin"), ("arm1",), False)
    assert len(told) == 1
    obey_left_halts(fleet.queue, fleet.clock())
    assert {robot.halted_by for robot in fleet.queue.robots().values()} == {"ada: smoke"}
    obey_left_halts(fleet.queue, fleet.clock())
    assert fleet.kinds().count("halt") == 1
