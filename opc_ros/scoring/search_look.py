"""What was measured of a candidate's own action search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchLook:
    """How much of what its Q promises a policy's own action search misses, on average over some recorded states."""

    is_standard: bool  # it is the standard search over all actions of the task: nothing to measure, nothing missed
    states: int = 0
    shortfall: float = 0.0  # 0: as good as a thorough search; 1: no better than an action drawn uniformly
    reach: float = 1.0  # how far its actions may go, as a fraction of what the task allows

    def __post_init__(self) -> None:
        if self.states < 0 or not (0.0 <= self.shortfall <= 1.0 and 0.0 <= self.reach <= 1.0):
            raise ValueError(
                f"{self.states} states with shortfall {self.shortfall} and reach {self.reach}, expected 0 or more, and "
                "0 to 1"
            )
