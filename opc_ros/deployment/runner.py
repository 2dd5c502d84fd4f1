"""Run a permitted candidate on an arm, episode by episode, asking before every step whether it still may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from opc_ros.arms.arm import Arm, Motion
from opc_ros.deployment.journal import RobotJournal, RunEpisode
from opc_ros.deployment.permit import Permit
from opc_ros.deployment.verifier import EpisodeSlot, PermitVerifier
from opc_ros.errors import ArmError, OpcError, PermitRefused
from opc_ros.grasp import MAX_STEPS, GraspAction, Observation

Choose = Callable[[Observation], GraspAction]  # a policy; whose Q function stands behind it is not our business


class End(StrEnum):
    """How a lease ended."""

    DONE = "done"
    REFUSED = "refused"
    BROKEN_OFF = "broken off"


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """What became of a lease; its episodes include those of an earlier attempt."""

    end: End
    message: str
    episodes: tuple[RunEpisode, ...]


class EpisodeSink(Protocol):
    """Who is told of episodes: a recorder, over ROS or not."""

    def begin(self, episode_id: str, permit: Permit) -> None:
        """An episode has begun; the arm is at its start."""
        ...

    def step(self, episode_id: str, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        """An action was carried out; `motion` says what was sent after clamping."""
        ...

    def end(self, episode_id: str, is_success: bool, steps: int) -> None: ...

    def abort(self, episode_id: str, reason: str) -> None: ...


class ListSink:
    """A sink that keeps everything in memory, for tests and for runs nobody records."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, object]] = []

    def begin(self, episode_id: str, permit: Permit) -> None:
        self.told.append(("begin", episode_id, permit.permit_id))

    def step(self, episode_id: str, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self.told.append(("step", episode_id, motion))

    def end(self, episode_id: str, is_success: bool, steps: int) -> None:
        self.told.append(("end", episode_id, is_success))

    def abort(self, episode_id: str, reason: str) -> None:
        self.told.append(("abort", episode_id, reason))


class LeaseRunner:
    """Runs leases on one arm; it begins nothing without its verifier's word, and stops at the next step on anyone's."""

    def __init__(
        self,
        verifier: PermitVerifier,
        journal: RobotJournal,
        sink: EpisodeSink,
        *,
        why_not_begin: Callable[[], str | None],
        why_to_stop: Callable[[], str | None],
    ) -> None:
        """`why_not_begin` is asked before every episode and may wait a while; `why_to_stop` before every step."""
        self._verifier = verifier
        self._journal = journal
        self._sink = sink
        self._why_not_begin = why_not_begin
        self._why_to_stop = why_to_stop

    def known(self, lease_id: str) -> tuple[RunEpisode, ...]:
        """Episodes of a lease that this robot has begun, ever."""
        return self._journal.episodes_of(lease_id)

    def run(self, permit: Permit, arm: Arm, choose: Choose, seed: int) -> LeaseReport:
        """Run what is left of a checked permit; the first trouble ends the lease, and the scheduler decides on."""
        while (left := self._verifier.episodes_left(permit)) > 0:
            reason = self._why_to_stop() or self._why_not_begin()
            if reason is not None:
                return self._report(permit, End.BROKEN_OFF, reason)
            try:
                self._verifier.check_moment(permit)
                seen = arm.begin(seed + permit.episodes - left)
                # Spent once the arm is ready: one that cannot begin is not held against the candidate.
                slot = self._verifier.begin_episode(permit)
            except PermitRefused as error:
                return self._report(permit, End.REFUSED, str(error))
            except ArmError as error:
                return self._report(permit, End.BROKEN_OFF, str(error))
            reason = self._run_episode(permit, slot, arm, choose, seen)
            if reason is not None:
                return self._report(permit, End.BROKEN_OFF, reason)
        return self._report(permit, End.DONE, "")

    def _run_episode(
        self, permit: Permit, slot: EpisodeSlot, arm: Arm, choose: Choose, seen: Observation
    ) -> str | None:
        """One episode; the reason where it was broken off. What was begun is always ended, in the journal too."""
        reason: str | None = "the runner was stopped"
        outcome, safety_events = "aborted", 0
        self._sink.begin(slot.episode_id, permit)
        try:
            is_success = self._play(permit, slot.episode_id, arm, choose, seen)
            outcome, reason = ("success" if is_success else "failure"), None
        except _Stopped as stopped:
            reason = str(stopped)
        except ArmError as error:
            reason, safety_events = str(error), 1
        except OpcError as error:
            reason = str(error)
        finally:
            if reason is not None:
                self._sink.abort(slot.episode_id, reason)
            self._verifier.end_episode(permit, slot, outcome, safety_events)
        return reason

    def _play(self, permit: Permit, episode_id: str, arm: Arm, choose: Choose, seen: Observation) -> bool:
        steps = 0
        for index in range(MAX_STEPS):
            chosen = choose(seen)
            self._refuse_to_go_on(permit)  # after the policy has thought: an order may have come meanwhile
            motion = arm.apply(chosen)
            self._sink.step(episode_id, index, seen, chosen, motion)
            steps = index + 1
            if chosen.terminate:
                break
            if steps < MAX_STEPS:
                seen = arm.observe()
        self._refuse_to_go_on(permit)
        is_success = arm.finish()
        self._sink.end(episode_id, is_success, steps)
        return is_success

    def _refuse_to_go_on(self, permit: Permit) -> None:
        reason = self._why_to_stop() or self._verifier.why_to_stop(permit)
        if reason is not None:
            raise _Stopped(reason)

    def _report(self, permit: Permit, end: End, message: str) -> LeaseReport:
        return LeaseReport(end, message, self._journal.episodes_of(permit.lease_id))


class _Stopped(Exception):
    """An order to stop was obeyed."""
