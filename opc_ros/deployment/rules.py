"""Rules of the scheduler, as set in `config/scheduler.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from opc_ros.deployment.confidence import is_provably_below, least_floor
from opc_ros.deployment.permit import Rung
from opc_ros.deployment.race import RaceRules

RungName = Literal["twin", "reduced", "full"]


@dataclass(frozen=True, slots=True)
class RungRules:
    """What a candidate must do on one rung, and what ends its attempt."""

    episodes: int  # to finish before climbing; 0 leaves the rung out
    success_floor: float  # aborts when success is provably below this
    safety_events: int  # aborts when there are more than this
    broken_episodes: int = 10  # aborts when more episodes than this break off
    climb_successes: int = 0  # successes in `episodes` needed to climb; a lower rate ends the attempt

    def __post_init__(self) -> None:
        if self.episodes < 0 or self.safety_events < 0 or self.broken_episodes < 0:
            raise ValueError("episodes, safety_events and broken_episodes must not be negative")
        if not 0.0 <= self.success_floor <= 1.0:
            raise ValueError(f"success_floor is {self.success_floor}, expected from 0 to 1")
        if not 0 <= self.climb_successes <= max(self.episodes, 0):
            raise ValueError(f"climb_successes is {self.climb_successes}, expected from 0 to episodes, {self.episodes}")

    def successes_to_climb(self, trials: int) -> int:
        """The same rate among more episodes: exploration may have run many more than the rung asks for."""
        return (
            -(-self.climb_successes * trials // self.episodes)
            if self.climb_successes and trials > self.episodes
            else self.climb_successes
        )


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs, from least to most risky."""

    twin: RungRules
    reduced: RungRules
    full: RungRules

    def of(self, rung: Rung) -> RungRules:
        return {Rung.TWIN: self.twin, Rung.REDUCED: self.reduced, Rung.FULL: self.full}[rung]

    def first(self) -> Rung:
        return next((rung for rung in Rung if self.of(rung).episodes > 0), Rung.FULL)

    def after(self, rung: Rung) -> Rung | None:
        """The next rung that is not left out; None at the top."""
        return next((each for each in Rung if each.number > rung.number and self.of(each).episodes > 0), None)


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """How long a lease lasts, and when a robot counts as lost."""

    heartbeat_s: float  # a robot silent for this long is offline, and starts no further episodes
    grace_s: float  # the longest an episode may take; a lost robot's work waits as long before it is leased again
    length_s: float  # lifetime of a lease and its permit
    losses: int = 3  # a robot that loses this many leases in a row is halted until a person resumes it

    def __post_init__(self) -> None:
        if min(self.heartbeat_s, self.grace_s, self.length_s) <= 0.0:
            raise ValueError("heartbeat_s, grace_s and length_s must be above 0")
        if self.losses < 1:
            raise ValueError(f"losses is {self.losses}, expected at least 1")


@dataclass(frozen=True, slots=True)
class RestRules:
    """When an arm must rest."""

    after_episodes: int
    pause_s: float

    def __post_init__(self) -> None:
        if self.after_episodes < 1 or self.pause_s < 0.0:
            raise ValueError("after_episodes must be at least 1 and pause_s not negative")


@dataclass(frozen=True, slots=True)
class RecordingRules:
    """Whether an episode counts only once its recording is in the store."""

    required: bool = True  # false: results count without a recording, which status and audit log point out
    wait_s: float = 60.0  # a recording not committed by then is missing, and its episode counts as broken

    def __post_init__(self) -> None:
        if self.wait_s < 0.0:
            raise ValueError(f"recording: wait_s is {self.wait_s}, expected 0 or more")


@dataclass(frozen=True, slots=True)
class RobotRules:
    """One arm, real or simulated."""

    rungs: tuple[RungName, ...]

    def serves(self, rung: Rung) -> bool:
        return rung.value in self.rungs


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """The content of config/scheduler.yaml."""

    robots: dict[str, RobotRules]
    ladder: Ladder
    lease: LeaseRules
    rest: RestRules
    race: RaceRules = field(default_factory=RaceRules)
    recording: RecordingRules = field(default_factory=RecordingRules)
    request_episodes: int = 300  # at full speed, for a request that names no number
    explore_unasked: bool = False  # on real arms, for a candidate that is only outranked; false: a person decides
    exploration_episodes: int = 100  # maximum at reduced speed, for a candidate that the gate leaves open
    exploration_tolerance: float = 0.1  # how far below the best the gate lets a candidate be: its within.tolerance
    abort_confidence: float = 0.99  # confidence of "provably below"
    override_people: int = 1  # how many different people are needed to override the gate's refusal

    def asks_before_exploring(self, rung: Rung) -> bool:
        """Whether a candidate that is only outranked needs a person's approval on this rung."""
        return rung is not Rung.TWIN and not self.explore_unasked

    def __post_init__(self) -> None:
        if not self.robots:
            raise ValueError("robots: expected at least one")
        for rung in Rung:
            is_used = self.ladder.of(rung).episodes > 0
            if is_used and not any(robot.serves(rung) for robot in self.robots.values()):
                raise ValueError(f"no robot serves rung {rung}; give it one, or set ladder: {rung}: episodes to 0")
        if self.ladder.full.episodes < 1:
            raise ValueError("ladder: full: episodes must be at least 1")
        if not 0.0 < self.abort_confidence < 1.0:
            raise ValueError(f"abort_confidence is {self.abort_confidence}, expected between 0 and 1")
        if self.override_people < 1:
            raise ValueError(f"override_people is {self.override_people}, expected at least 1")
        for rung in Rung:
            self._check_floor(rung)
        if self.request_episodes < 1 or self.exploration_episodes < 0:
            raise ValueError("request_episodes must be at least 1 and exploration_episodes not negative")
        if not 0.0 < self.exploration_tolerance < 1.0:
            raise ValueError(f"exploration_tolerance is {self.exploration_tolerance}, expected between 0 and 1")

    def _check_floor(self, rung: Rung) -> None:
        """Refuse a success floor that no result on the rung could ever trigger."""
        rules = self.ladder.of(rung)
        most = max(rules.episodes, self.request_episodes) if rung is Rung.FULL else rules.episodes
        if not most or not rules.success_floor:
            return
        if not is_provably_below(0, most, rules.success_floor, confidence=self.abort_confidence):
            enough = least_floor(most, confidence=self.abort_confidence)
            raise ValueError(
                f"ladder: {rung}: not even 0 successes in {most} episodes would show less than "
                f"{rules.success_floor:.0%}; set success_floor to {enough:.2f} or more, or to 0 and use "
                f"climb_successes, or give the rung more episodes"
            )
