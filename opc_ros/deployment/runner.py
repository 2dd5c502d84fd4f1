"""Run a permitted candidate on an arm, episode by episode, checking before every step whether it still may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from opc_ros.arms.arm import Arm, Motion
from opc_ros.deployment.journal import RobotJournal, RunEpisode
from opc_ros.deployment.permit import Permit
from opc_ros.deployment.verifier import EpisodeSlot, PermitVerifier
from opc_ros.errors import ArmError, CandidateError, OpcError, PermitRefused, RobotClockWrong, WorkerLost
from opc_ros.grasp import GraspAction, Observation
from opc_ros.playing import Player, play_episode


class End(StrEnum):
    """How a lease ended."""

    DONE = "done"
    REFUSED = "refused"
    BROKEN_OFF = "broken off"


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """The result of a lease, including episodes of an earlier attempt."""

    end: End
    message: str
    episodes: tuple[RunEpisode, ...]


class RunListener(Protocol):
    """Receives the events of episodes, such as a recorder does, over ROS or directly."""

    def begin(self, episode_id: str, permit: Permit, seed: int, began_ns: int) -> None:
        """An episode has begun with the frame of this timestamp; the arm is at its start pose."""
        ...

    def step(self, episode_id: str, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        """An action was carried out; `motion` says what was sent after clamping."""
        ...

    def end(self, episode_id: str, is_success: bool, steps: int) -> None: ...

    def abort(self, episode_id: str, reason: str) -> None: ...


class ListSink:
    """A listener that keeps everything in memory, for tests and for unrecorded runs."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, object]] = []

    def begin(self, episode_id: str, permit: Permit, seed: int, began_ns: int) -> None:
        self.told.append(("begin", episode_id, permit.permit_id))

    def step(self, episode_id: str, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self.told.append(("step", episode_id, motion))

    def end(self, episode_id: str, is_success: bool, steps: int) -> None:
        self.told.append(("end", episode_id, is_success))

    def abort(self, episode_id: str, reason: str) -> None:
        self.told.append(("abort", episode_id, reason))


class LeaseRunner:
    """Runs leases on one arm; starts only what its verifier accepts, and stops at the next step when asked to."""

    def __init__(
        self,
        verifier: PermitVerifier,
        journal: RobotJournal,
        sink: RunListener,
        *,
        why_not_begin: Callable[[], str | None],
        why_to_stop: Callable[[], str | None],
        tell_overrun: Callable[[str], None] = lambda reason: None,
        await_recording: Callable[[str], str] = lambda episode_id: "",
    ) -> None:
        """`why_not_begin` is asked before every episode and may wait a while; `why_to_stop` is asked before every step.

        `tell_overrun` is called when a candidate misses its deadline, returns an invalid action, or its process dies.
        `await_recording` returns the digest of an episode's committed file, or nothing if the recorder does not report
        it in time.
        """
        self._verifier = verifier
        self._journal = journal
        self._sink = sink
        self._why_not_begin = why_not_begin
        self._why_to_stop = why_to_stop
        self._tell_overrun = tell_overrun
        self._await_recording = await_recording

    def known(self, lease_id: str) -> tuple[RunEpisode, ...]:
        """Episodes that this robot has ever begun under a lease."""
        return self._journal.episodes_of(lease_id)

    def run(self, permit: Permit, arm: Arm, player: Player, seed: int) -> LeaseReport:
        """Run what is left of a checked permit; the first problem ends the lease, and the scheduler takes over.

        The n-th episode of the permit uses the lease's seed plus n, even if an earlier attempt ran some of them.
        """
        while (left := self._verifier.episodes_left(permit)) > 0:
            reason = self._why_to_stop() or self._why_not_begin()
            if reason is not None:
                return self._report(permit, End.BROKEN_OFF, reason)
            try:
                self._verifier.check_moment(permit)
                self._run_episode(permit, arm, player, seed + permit.episodes - left)
            except RobotClockWrong as error:  # the robot's fault: the candidate runs on another robot, or later
                return self._report(permit, End.BROKEN_OFF, str(error))
            except PermitRefused as error:
                return self._report(permit, End.REFUSED, str(error))
            except OpcError as error:
                return self._report(permit, End.BROKEN_OFF, str(error))
        return self._report(permit, End.DONE, "")

    def _run_episode(self, permit: Permit, arm: Arm, player: Player, seed: int) -> None:
        """Run one episode; what was begun is always ended, in the journal as well."""
        attempt = _Attempt(self._verifier, self._sink, permit)
        safety_events = 0
        try:
            play_episode(arm, player, seed, attempt, why_to_stop=lambda: self.why_to_stop(permit))
        except ArmError:
            safety_events = 1
            raise
        except (CandidateError, WorkerLost) as error:
            # Between actions the arm stands still; the scheduler counts broken episodes and gives up on the candidate.
            self._tell_overrun(str(error))
            raise
        finally:
            if attempt.slot is not None:
                self._verifier.end_episode(permit, attempt.slot, attempt.outcome, safety_events)
        # Write the outcome to the journal before waiting: if the runner dies now, the store still knows about the file.
        if attempt.slot is not None and (digest := self._await_recording(attempt.slot.episode_id)):
            self._journal.note_recording(attempt.slot.episode_id, digest)

    def why_to_stop(self, permit: Permit) -> str | None:
        """Why an episode under this permit may not continue, or None."""
        return self._why_to_stop() or self._verifier.why_to_stop(permit)

    def _report(self, permit: Permit, end: End, message: str) -> LeaseReport:
        return LeaseReport(end, message, self._journal.episodes_of(permit.lease_id))


class _Attempt:
    """One episode under a permit: spends a slot when it begins, and reports to the sink under its id."""

    def __init__(self, verifier: PermitVerifier, sink: RunListener, permit: Permit) -> None:
        self._verifier = verifier
        self._sink = sink
        self._permit = permit
        self.slot: EpisodeSlot | None = None
        self.outcome = "aborted"

    def begin(self, seed: int, seen: Observation) -> None:
        # Spend the slot once the arm is ready: an episode that cannot begin must not count against the candidate.
        self.slot = self._verifier.begin_episode(self._permit)
        self._sink.begin(self.slot.episode_id, self._permit, seed, seen.stamp_ns)

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self._sink.step(self._episode_id, index, seen, chosen, motion)

    def end(self, is_success: bool, steps: int) -> None:
        self.outcome = "success" if is_success else "failure"
        self._sink.end(self._episode_id, is_success, steps)

    def abort(self, reason: str) -> None:
        self._sink.abort(self._episode_id, reason)

    @property
    def _episode_id(self) -> str:
        assert self.slot is not None, "begin comes first"
        return self.slot.episode_id
