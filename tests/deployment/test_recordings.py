"""An episode counts once its recording is committed, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.queue_reader import look_into_queue
from opc_ros.deployment.recordings import PendingResult
from opc_ros.deployment.rules import Ladder, RecordingRules, RungRules
from opc_ros.deployment.scheduler import Scheduler
from opc_ros.deployment.status import describe_deployment, describe_recordings
from opc_ros.errors import DeploymentError
from opc_ros.store import open_store
from opc_ros.workflows.recording_look import RecordingLook
from tests.deployment.fleet import Fleet, make_rules, say
from tests.store.grasps import SUCCESS, make_episode

DIGEST = "a" * 64
LADDER = Ladder(RungRules(0, 0.0, 0, 2), RungRules(0, 0.0, 0, 2), RungRules(4, 0.0, 1, 1))


class Lab:
    """One lease of two episodes on a robot that says only what the test tells it to."""

    def __init__(self, folder: Path, *, required: bool = True) -> None:
        rules = make_rules(ladder=LADDER, recording=RecordingRules(required=required, wait_s=30.0))
        self.fleet = Fleet(folder, rules)
        self.stored: set[str] = set()
        self.start()
        self.fleet.ask("a")
        self.tick()
        (self.lease,) = self.queue.open_leases()

    @property
    def queue(self) -> Queue:
        assert self.fleet.queue is not None
        return self.fleet.queue

    def start(self) -> None:
        self.fleet.kill()
        self.fleet.queue = self.fleet.open_queue()
        self.scheduler = Scheduler(
            self.fleet.queue,
            self.fleet.rules,
            self.fleet.signer,
            lambda *_: say(Verdict.PASS),
            self.fleet.clock,
            lambda: f"id{next(self.fleet.ids)}",
            steady_s=lambda: self.fleet.clock() * 1e-9,
            look=self.look,
        )

    def look(self, pending: Sequence[PendingResult]) -> Mapping[str, bool]:
        return {each.episode_id: each.episode_id in self.stored for each in pending}

    def tick(self, seconds: float = 1.0) -> None:
        self.fleet.clock.advance(seconds)
        self.scheduler.hear("arm1")
        self.scheduler.tick()

    def report(self, slot: int, recording: str = "") -> str:
        episode = f"{self.lease.id}-{slot:03d}"
        self.scheduler.report(self.lease.id, episode, True, 0, recording)
        return episode

    def trials(self) -> int:
        return self.queue.tally(self.queue.requests()[0]).trials

    def told(self, kind: str) -> list[dict[str, object]]:
        return [line.body for line in self.fleet.lines(kind)]


@pytest.fixture
def lab(folder: Path) -> Lab:
    return Lab(folder)


def test_a_recording_that_the_robot_signed_counts_at_once(lab: Lab) -> None:
    lab.report(0, DIGEST)
    assert lab.trials() == 1
    assert lab.told("episode")[0]["sha256"] == DIGEST


def test_a_result_without_a_recording_waits_until_the_store_has_it(lab: Lab) -> None:
    episode = lab.report(0)
    lab.tick()
    tally = lab.queue.tally(lab.queue.requests()[0])
    assert (tally.trials, tally.broken, tally.outstanding) == (0, 0, 2)  # one waits, one is still leased
    assert lab.queue.real_results() == {}
    lab.stored.add(episode)
    lab.tick()
    assert lab.trials() == 1
    assert [body["recording"] for body in lab.told("recording")] == ["committed"]


def test_a_recording_that_never_comes_makes_its_episode_a_broken_one_and_the_next_such_one_aborts(lab: Lab) -> None:
    lab.report(0)
    lab.tick()
    lab.tick(29.0)
    assert lab.queue.tally(lab.queue.requests()[0]).broken == 0
    lab.tick(2.0)
    tally = lab.queue.tally(lab.queue.requests()[0])
    assert (tally.trials, tally.broken) == (0, 1)
    lab.report(1)
    lab.tick()
    lab.tick(31.0)
    assert lab.queue.requests()[0].state == "aborted"  # the rung allows one broken episode
    assert "1 results do not count" not in describe_recordings(describe_deployment(lab.queue, 0))
    assert "2 results do not count: their recording was never committed" in describe_recordings(
        describe_deployment(lab.queue, 0)
    )


def test_a_restart_waits_again_and_loses_no_pending_result(lab: Lab) -> None:
    episode = lab.report(0)
    lab.tick(20.0)
    lab.start()
    lab.tick(20.0)
    assert lab.told("recording") == []
    lab.stored.add(episode)
    lab.tick()
    assert lab.trials() == 1


def test_where_the_rules_let_unrecorded_episodes_count_status_and_audit_log_say_so(folder: Path) -> None:
    lab = Lab(folder, required=False)
    lab.report(0)
    assert lab.trials() == 1
    assert lab.told("recording_rule") == [
        {"counts_unrecorded": True, "change": lab.told("recording_rule")[0]["change"]}
    ]
    assert lab.told("episode")[0]["recording"] == "not asked"
    assert describe_recordings(describe_deployment(lab.queue, 0)) == [
        "the rules let episodes count that nobody recorded",
        "1 results counted without asking for their recording",
    ]


def test_a_queue_of_the_format_before_keeps_its_results(folder: Path, lab: Lab) -> None:
    lab.report(0, DIGEST)
    state = lab.queue.folder
    lab.fleet.kill()
    with sqlite3.connect(state / "queue.db") as database:
        database.executescript(
            "DROP VIEW counted; DROP INDEX results_pending; ALTER TABLE results DROP COLUMN recording;"
            "UPDATE facts SET value = '1' WHERE name = 'format'"
        )
    database.close()
    with pytest.raises(DeploymentError, match="opc migrate"), look_into_queue(state):
        pass
    queue = Queue(state, AuditLog(state / "audit.jsonl", lab.fleet.signer))
    assert queue.tally(queue.requests()[0]).trials == 1
    assert queue.recordings() == {"not asked": 1}
    queue.close()


def test_the_store_is_looked_into_beside_the_caller(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.append(make_episode("lease-000", label=SUCCESS, seed=0))
    moment = [0.0]
    look = RecordingLook(lambda robot: tmp_path / "store", steady_s=lambda: moment[0])
    wanted = [PendingResult(name, "q", "arm1") for name in ("lease-000", "lease-001")]
    assert look(wanted) == {}
    look.finish()
    assert look(wanted) == {"lease-000": True, "lease-001": False}
    elsewhere = RecordingLook(lambda robot: tmp_path / "nowhere", steady_s=lambda: 0.0)
    elsewhere(wanted)
    elsewhere.finish()
    assert elsewhere(wanted) == {"lease-000": False, "lease-001": False}
    for each in (look, elsewhere):
        each.close()
