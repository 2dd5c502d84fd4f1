"""Breaks something at a moving arm, again and again, and measures what happens to the arm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from opc_interfaces.msg import SafetyEvent

from opc_ros.ros.stop_channel import KINDS as EVENT_KINDS
from tests.faults.arm_kinds import KINDS, Kind
from tests.faults.arm_rig import REST_RAD_S, ArmRig, LeaseEnded, RigFailed

LONGEST_S = 6.0  # until a fault has been noticed and the lease has ended
STILL_S = 0.1
MOST_EARLY = 20
AFTER_S = 0.6  # how long the arm is watched after that
RANDOM_S = 1.2  # faults occur at random moments of a motion
GOAL_REST_MS = 500.0
GOAL_MOTION_MM = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one fault led to."""

    run: int
    kind: str
    rest_ms: float | None  # from the fault until the arm rested and stayed at rest; None if that cannot be known
    event_ms: float | None  # from the fault until the first safety event; None: there was none
    event: str
    travel_mm: float  # of the tool, after the first hold
    commands: int
    beyond_limits: int
    answer: str  # how the lease ended
    returned_mm: float = 0.0  # of the tool, after everything was repaired and before anybody commanded a motion
    ended_early: int = 0  # leases that ended before anything was broken
    is_at_rest: bool = True  # when it was last measured

    def broken(self) -> list[str]:
        """Which promises it breaks, except the times, which are judged over many faults."""
        lines = []
        if self.event_ms is None:
            lines.append("no safety event")
        if not self.is_at_rest:
            lines.append("the arm still moved when it was looked at last")
        if self.travel_mm > GOAL_MOTION_MM:
            lines.append(f"the tool moved by {self.travel_mm:.1f} mm after the hold")
        if self.returned_mm > GOAL_MOTION_MM:
            lines.append(f"the tool moved by {self.returned_mm:.1f} mm after everything was repaired")
        if self.beyond_limits:
            lines.append(f"{self.beyond_limits} commands beyond the limits")
        return [f"run {self.run}, {self.kind}: {line}" for line in lines]


def choose_kinds(runs: int, seed: int, kinds: Iterable[str] = KINDS) -> list[str]:
    """Every kind equally often, in random order."""
    names = list(kinds)
    rng = np.random.default_rng(seed)
    chosen = [names[index % len(names)] for index in range(runs)]
    rng.shuffle(chosen)
    return chosen


def run_all(rig: ArmRig, kinds: Sequence[str], seed: int, done: Iterable[int], tell: Callable[[Outcome], None]) -> None:
    """Run those that are not done yet; each is reported when it has ended."""
    skipped = set(done)
    for run, name in enumerate(kinds):
        if run not in skipped:
            tell(run_one(rig, run, name, np.random.default_rng([seed, run])))


def run_one(rig: ArmRig, run: int, name: str, rng: np.random.Generator) -> Outcome:
    kind = KINDS[name]
    returned_mm, ended_early = 0.0, 0
    while True:
        returned_mm = max(returned_mm, _recover(rig))
        try:
            rig.move(rig.candidates[kind.candidate])
            time.sleep(float(rng.uniform(0.0, RANDOM_S)))  # not to avoid a race: the moment is part of the experiment
            rig.wait_until_moving()
            break
        except LeaseEnded as error:
            ended_early += 1
            if ended_early > MOST_EARLY:
                raise RigFailed(f"{ended_early} leases ended before anything was broken: {error}") from error
    fault_s = time.monotonic()
    mend = kind.act(rig)
    try:
        _watch(rig, fault_s)
        return replace(_judge(rig, run, name, kind, fault_s), returned_mm=returned_mm, ended_early=ended_early)
    finally:
        mend()


def _recover(rig: ArmRig) -> float:
    """Repair everything, and measure how far the tool moves although nobody commands a motion."""
    rig.recover()
    from_s = time.monotonic()
    rig.wait_until(lambda: bool(rig.joints) and rig.joints[-1][0] > from_s + STILL_S, "the driver measures nothing")
    return _travel_mm(rig, from_s)


def _watch(rig: ArmRig, fault_s: float) -> None:
    """Until the lease has ended or its runner is gone, and the arm has been watched for a while."""

    def is_over() -> bool:
        is_told = bool(_events(rig, fault_s))
        return is_told and (bool(rig.answer) or not rig.is_running("runner"))

    with suppress(RigFailed):  # that nothing was noticed is a finding
        rig.wait_until(is_over, "not noticed", within_s=LONGEST_S)
    end_s = time.monotonic() + AFTER_S
    while time.monotonic() < end_s:
        time.sleep(0.05)


def _judge(rig: ArmRig, run: int, name: str, kind: Kind, fault_s: float) -> Outcome:
    states = [state for state in tuple(rig.joints) if state[0] >= fault_s]
    moving = [at_s for at_s, _, speed in states if speed >= REST_RAD_S]
    begin_s = fault_s
    events = _events(rig, fault_s)
    if kind.thinks and moving:
        # It begins with the candidate's next choice: the motion before it is as it should be. A quick choice can be
        # reported before the arm has been measured at rest.
        pauses = [at_s for at_s, _, speed in states if speed < REST_RAD_S]
        begin_s = min([*pauses, *(at_s for at_s, _ in events)], default=fault_s)
        moving = [at_s for at_s in moving if at_s > begin_s]
    commands = [(at_s, msg) for at_s, msg in tuple(rig.commands) if at_s >= fault_s]
    holds = [at_s for at_s, msg in commands if len(msg.points) == 1]
    rest_s = max(moving, default=begin_s) if kind.has_arm else None
    last_s = states[-1][0] if states else fault_s
    return Outcome(
        run=run,
        kind=name,
        rest_ms=None if rest_s is None else round((rest_s - begin_s) * 1e3, 1),
        event_ms=round((events[0][0] - begin_s) * 1e3, 1) if events else None,
        event=f"{EVENT_KINDS[events[0][1].kind]}: {events[0][1].detail}" if events else "",
        travel_mm=_travel_mm(rig, min([*holds, rest_s or begin_s])) if kind.has_arm else 0.0,
        commands=len(commands),
        beyond_limits=sum(_is_beyond(rig, point.positions) for _, msg in commands for point in msg.points),
        answer=rig.answer,
        is_at_rest=rest_s is None or last_s - rest_s >= STILL_S,
    )


def _events(rig: ArmRig, since_s: float) -> list[tuple[float, SafetyEvent]]:
    return [(at_s, msg) for at_s, msg in tuple(rig.events) if at_s >= since_s and msg.kind != SafetyEvent.CLAMPED]


def _travel_mm(rig: ArmRig, since_s: float) -> float:
    """The furthest the tool got from where it was."""
    poses = [rig.kinematics.locate_tool(joints) for at_s, joints, _ in tuple(rig.joints) if at_s >= since_s]
    if not poses:
        return 0.0
    points = np.array([(pose.x_m, pose.y_m, pose.z_m) for pose in poses])
    return round(float(np.linalg.norm(points - points[0], axis=1).max()) * 1e3, 2)


def _is_beyond(rig: ArmRig, positions: Sequence[float]) -> bool:
    angles = np.array(positions)
    return not np.isfinite(angles).all() or bool(rig.limits.position_violations(angles))


def read_outcomes(path: Path) -> list[Outcome]:
    """What an interrupted experiment has already measured."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines() if line.endswith("}")]


def keep_outcome(path: Path, outcome: Outcome) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def judge_all(outcomes: Sequence[Outcome], goal_ms: float = GOAL_REST_MS) -> list[str]:
    """Every broken promise in one line."""
    broken = [line for outcome in outcomes for line in outcome.broken()]
    rests = [outcome.rest_ms for outcome in outcomes if outcome.rest_ms is not None]
    if rests and np.percentile(rests, 99) > goal_ms:
        broken.append(f"from fault to rest: 99th percentile {np.percentile(rests, 99):.0f} ms, goal {goal_ms:.0f} ms")
    return broken


def tabulate(outcomes: Sequence[Outcome]) -> list[str]:
    head = f"{'fault':<22} {'runs':>5} {'rest p50':>9} {'p99':>7} {'event p50':>10} {'p99':>7}"
    lines = [f"{head} {'after hold':>11} {'broken':>7}"]
    for name in (*KINDS, ""):
        of_kind = [outcome for outcome in outcomes if name in ("", outcome.kind)]
        if not of_kind:
            continue
        rests = [outcome.rest_ms for outcome in of_kind if outcome.rest_ms is not None]
        events = [outcome.event_ms for outcome in of_kind if outcome.event_ms is not None]
        columns = [f"{np.percentile(each, q):.0f} ms" if each else "-" for each in (rests, events) for q in (50, 99)]
        travel = max(outcome.travel_mm for outcome in of_kind)
        broken = sum(bool(outcome.broken()) for outcome in of_kind)
        lines.append(
            f"{name or 'all':<22} {len(of_kind):>5} {columns[0]:>9} {columns[1]:>7} {columns[2]:>10} {columns[3]:>7} "
            f"{travel:>8.1f} mm {broken:>7}"
        )
    return lines
