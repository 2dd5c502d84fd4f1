"""Where a policy runner gets candidates from: its own disk, or the lab's depot on another machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from opc_interfaces.action import RunEpisodes

from opc_ros.deployment.keys import TextSigner
from opc_ros.errors import OpcError
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.ros.policy_runner_settings import PolicyRunnerSettings
from opc_ros.transfer.channel import DepotChannel
from opc_ros.transfer.fetching import fetch_candidate
from opc_ros.transfer.lab_clock import LabClock, why_apart


class CandidateSource:
    """Without an address, candidates are at the path the scheduler gives; otherwise they are fetched by id."""

    def __init__(
        self,
        settings: PolicyRunnerSettings,
        robot: str,
        signer: TextSigner,
        folder: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._held = ExitStack()
        self._folder, self._max_apart_s, self._tell = folder, settings.max_clock_apart_s, tell
        self._channel: DepotChannel | None = None
        self._clock: LabClock | None = None
        if settings.depot:
            self._channel, other = (DepotChannel(settings.depot, robot, signer) for _ in range(2))
            self._clock = LabClock(other)
            for close in (self._channel.close, other.close, self._clock.close):
                self._held.callback(close)

    def close(self) -> None:
        self._held.close()

    def read(self, goal: RunEpisodes.Goal, why_to_stop: Callable[[], str | None]) -> Candidate | None:
        """The candidate that the goal's permit names; the permit itself is checked afterwards."""
        if self._channel is not None:
            return fetch_candidate(self._channel, goal.permit.candidate_id, self._folder, why_to_stop=why_to_stop)
        try:
            return read_candidate(goal.candidate_path)
        except OpcError as error:
            self._tell(str(error))
            return None

    def why_not_begin(self) -> str | None:
        """A reason if there are two clocks, and they differ too much."""
        return why_apart(self._clock.reading, self._max_apart_s) if self._clock is not None else None
