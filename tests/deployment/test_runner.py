from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.arms.arm import Motion, ScriptedArm
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.keys import Signer
from opc_ros.deployment.permit import Permit, Revocations, Rung, sign_revocations
from opc_ros.deployment.runner import End, LeaseRunner, ListSink
from opc_ros.errors import CandidateError, PermitRefused
from opc_ros.grasp import GraspAction, Observation
from opc_ros.playing import ScriptedPlayer
from opc_ros.policies.candidate import candidate_id, read_candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, canonical_manifest
from tests.deployment.clock import Clock
from tests.deployment.conftest import CANDIDATE, Robot

Issue = Callable[..., Signed]

MANIFEST = CandidateManifest(
    format_version=FORMAT_VERSION,
    name="sample",
    artifact="weights.safetensors",
    format="safetensors",
    input=InputSpec(48, 48),
    architecture="whole_image",
)


class CountingArm(ScriptedArm):
    """A scripted arm that counts the motions a real one would have made."""

    def __init__(self) -> None:
        super().__init__("arm1", image_size=32)
        self.motions = 0

    def begin(self, seed: int) -> Observation:
        self.motions += 1
        return super().begin(seed)

    def apply(self, action: GraspAction) -> Motion:
        self.motions += 1
        return super().apply(action)


@ScriptedPlayer
def go_down(seen: Observation) -> GraspAction:
    """Two large steps down, then terminate."""
    if seen.tool.z_m > 0.1:
        return GraspAction(displacement_m=(0.0, 0.0, -0.2))
    return GraspAction(terminate=True)


@pytest.fixture
def arm() -> CountingArm:
    return CountingArm()


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


def make_runner(robot: Robot, sink: ListSink, **changes: Callable[[], str | None]) -> LeaseRunner:
    asked = {"why_not_begin": lambda: None, "why_to_stop": lambda: None} | changes
    return LeaseRunner(robot.verifier, robot.journal, sink, **asked)


def check(robot: Robot, issue: Issue) -> Permit:
    return robot.verifier.check(issue(), CANDIDATE, Rung.REDUCED)


def test_a_lease_runs_every_episode_and_tells_what_was_sent(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    report = make_runner(robot, sink).run(check(robot, issue), arm, go_down, seed=3)
    assert report.end is End.DONE
    assert [episode.outcome for episode in report.episodes] == ["failure"] * 3
    assert [kind for kind, _, _ in sink.told if kind in ("begin", "end")] == ["begin", "end"] * 3
    motion = next(what for kind, _, what in sink.told if kind == "step")
    assert isinstance(motion, Motion)
    assert motion.sent.displacement_m == (0.0, 0.0, -0.08)
    assert "dz is -0.2000 m, allowed +-0.0800" in motion.clamped[0]


def test_a_lease_sent_again_continues_where_it_was_and_repeats_nothing(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    begun = []

    def stop_after_two() -> str | None:
        begun.append(1)
        return "scheduler unheard" if len(begun) == 3 else None

    permit = check(robot, issue)
    first = make_runner(robot, sink, why_not_begin=stop_after_two).run(permit, arm, go_down, seed=3)
    assert (first.end, first.message, len(first.episodes)) == (End.BROKEN_OFF, "scheduler unheard", 2)
    robot.restart()
    second = make_runner(robot, sink).run(check(robot, issue), arm, go_down, seed=3)
    assert second.end is End.DONE
    assert [episode.episode_id for episode in second.episodes] == ["lease1-000", "lease1-001", "lease1-002"]
    assert len([1 for kind, _, _ in sink.told if kind == "begin"]) == 3


def test_answers_that_are_not_numbers_end_the_lease_and_are_reported_as_a_safety_event(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    told: list[str] = []

    @ScriptedPlayer
    def answer_nan(seen: Observation) -> GraspAction:
        raise CandidateError("returned NaN or infinity for 3 of 64 actions")

    asked = {"why_not_begin": lambda: None, "why_to_stop": lambda: None}
    runner = LeaseRunner(robot.verifier, robot.journal, sink, **asked, tell_overrun=told.append)
    report = runner.run(check(robot, issue), arm, answer_nan, seed=3)
    assert (report.end, [episode.outcome for episode in report.episodes]) == (End.BROKEN_OFF, ["aborted"])
    assert told == ["returned NaN or infinity for 3 of 64 actions"]


def test_a_revocation_stops_within_the_episode(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink, signer: Signer
) -> None:
    @ScriptedPlayer
    def revoke_on_second_thought(seen: Observation) -> GraspAction:
        if seen.tool.z_m < 0.25:
            robot.verifier.accept_revocations(sign_revocations(Revocations(1, ("p1",)), signer))
        return go_down.choose(seen)

    report = make_runner(robot, sink).run(check(robot, issue), arm, revoke_on_second_thought, seed=3)
    assert (report.end, report.message) == (End.BROKEN_OFF, "permit p1 was revoked")
    assert [episode.outcome for episode in report.episodes] == ["aborted"]
    assert arm.motions == 2  # to the start, and one step; the step chosen after the revocation is not sent
    assert sink.told[-1] == ("abort", "lease1-000", "permit p1 was revoked")


def test_a_stop_counts_as_a_safety_event_and_ends_the_lease(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    @ScriptedPlayer
    def press(seen: Observation) -> GraspAction:
        arm.stop("red button")
        return go_down.choose(seen)

    report = make_runner(robot, sink).run(check(robot, issue), arm, press, seed=3)
    assert report.end is End.BROKEN_OFF
    assert "red button" in report.message
    assert [(e.outcome, e.safety_events) for e in report.episodes] == [("aborted", 1)]


def test_an_arm_stopped_beforehand_is_not_held_against_the_candidate(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    arm.stop("lunch")
    report = make_runner(robot, sink).run(check(robot, issue), arm, go_down, seed=3)
    assert report.end is End.BROKEN_OFF
    assert "lunch" in report.message
    assert report.episodes == ()
    assert sink.told == []


def test_a_policy_that_fails_leaves_the_arm_still(robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink) -> None:
    @ScriptedPlayer
    def fail(seen: Observation) -> GraspAction:
        raise CandidateError("returned NaN or infinity for 3 of 64 actions")

    report = make_runner(robot, sink).run(check(robot, issue), arm, fail, seed=3)
    assert report.end is End.BROKEN_OFF
    assert "NaN" in report.message
    assert arm.motions == 1


def test_an_unexpected_failure_is_in_the_journal_before_it_is_raised(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink
) -> None:
    @ScriptedPlayer
    def crash(seen: Observation) -> GraspAction:
        raise ZeroDivisionError

    permit = check(robot, issue)
    with pytest.raises(ZeroDivisionError):
        make_runner(robot, sink).run(permit, arm, crash, seed=3)
    assert [episode.outcome for episode in robot.journal.episodes_of("lease1")] == ["aborted"]


def test_a_permit_that_expires_between_episodes_ends_the_lease(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink, clock: Clock
) -> None:
    @ScriptedPlayer
    def dawdle(seen: Observation) -> GraspAction:
        clock.advance(200)
        return GraspAction(terminate=True)

    report = make_runner(robot, sink).run(check(robot, issue), arm, dawdle, seed=3)
    assert report.end is End.DONE  # three times 200 s: the third begins at 400 and ends at 600
    clock.advance(1)
    late = issue(permit_id="p2", lease_id="lease2")
    with pytest.raises(PermitRefused, match="expired"):
        robot.verifier.check(late, CANDIDATE, Rung.REDUCED)


def test_a_clock_set_back_between_episodes_breaks_the_lease_off_and_is_not_held_against_the_candidate(
    robot: Robot, issue: Issue, arm: CountingArm, sink: ListSink, clock: Clock
) -> None:
    @ScriptedPlayer
    def set_the_clock_back(seen: Observation) -> GraspAction:
        clock.advance(-60)
        return GraspAction(terminate=True)

    report = make_runner(robot, sink).run(check(robot, issue), arm, set_the_clock_back, seed=3)
    assert report.end is End.BROKEN_OFF  # a refusal would send the candidate's request to a person
    assert "this robot's clock was set back by 60 s" in report.message
    assert len(report.episodes) == 1
    assert "set back by 60 s" in robot.verifier.why_clock_is_wrong()
    clock.advance(60)
    assert robot.verifier.why_clock_is_wrong() == ""


def test_a_candidate_changed_after_the_permit_is_refused_and_the_arm_stays_still(
    robot: Robot, issue: Issue, arm: CountingArm, tmp_path: Path
) -> None:
    candidate = write_candidate(tmp_path / "candidate", MANIFEST, b"weights")
    signed = issue(candidate_id=candidate.id)
    assert robot.verifier.check(signed, read_candidate(tmp_path / "candidate").id, Rung.REDUCED)
    path = tmp_path / "candidate" / candidate.manifest.artifact
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(bytes(changed))
    with pytest.raises(PermitRefused, match="they changed"):
        robot.verifier.check(signed, read_candidate(tmp_path / "candidate").id, Rung.REDUCED)
    assert arm.motions == 0


def test_a_candidate_changed_between_check_and_load_runs_as_checked(robot: Robot, issue: Issue, tmp_path: Path) -> None:
    made = write_candidate(tmp_path / "candidate", MANIFEST, b"weights")
    read = read_candidate(tmp_path / "candidate")
    robot.verifier.check(issue(candidate_id=made.id), read.id, Rung.REDUCED)
    (tmp_path / "candidate" / made.manifest.artifact).write_bytes(b"something else")
    manifest = canonical_manifest(read.manifest_bytes, where="test")
    assert candidate_id(manifest, read.artifact_bytes) == made.id  # the checked bytes are the ones loaded
