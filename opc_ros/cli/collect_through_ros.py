"""`opc collect --through-ros`: twins behind driver topics, recorders and behaviour policies as ROS 2 processes."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.bringup.checks import require_ros
from opc_ros.bringup.domain import claim_free_domain
from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import Supervisor, heed_signals
from opc_ros.bringup.systems import find_system
from opc_ros.errors import ArmError
from opc_ros.progress import Report, ignore_progress

if TYPE_CHECKING:
    from opc_ros.store import Store

SEEDS_APART = 1_000_000  # each robot has its own range of seeds


@dataclass(frozen=True, slots=True)
class RosCollection:
    """What to collect, and on which robots."""

    robots: tuple[str, ...]
    episodes: int  # per robot
    world: str
    policy: str
    image_size: int
    seed: int
    real_time_factor: float
    arm_config: str = ""  # empty: the system's default


def collect_through_ros(store: Store, plan: RosCollection, report: Report = ignore_progress) -> tuple[int, int]:
    """Add each robot's missing episodes; returns how many episodes and successes were added."""
    counts = {robot: _count(store, plan, robot) for robot in plan.robots}
    there = {robot: episodes for robot, (episodes, _) in counts.items()}
    lacking = {robot: plan.episodes - there[robot] for robot in plan.robots if there[robot] < plan.episodes}
    nodes = [node for robot, missing in lacking.items() for node in _nodes(store, plan, robot, there[robot], missing)]
    wanted = sum(lacking.values())
    before = _outcomes(store.path)
    last_lines: collections.deque[str] = collections.deque(maxlen=12)
    finished: list[str] = []

    def note(line: str) -> None:
        last_lines.append(line)
        if line.endswith("] finished"):
            finished.append(line)

    def is_done() -> bool:
        done = _outcomes(store.path) - before
        report(min(done, wanted), wanted, f"on {len(lacking)} arms")
        return done >= wanted and len(finished) == len(lacking)

    if nodes:
        require_ros()
        heed_signals()
        with (
            claim_free_domain("opc collect") as environment,
            Supervisor(nodes, note, environment=environment) as running,
        ):
            if running.wait(until=is_done) != 0:
                raise ArmError("collecting through ROS failed; the last lines were:\n  " + "\n  ".join(last_lines))
    after = {robot: _count(store, plan, robot) for robot in plan.robots}
    added, succeeded = (sum(after[robot][i] - counts[robot][i] for robot in plan.robots) for i in (0, 1))
    return added, succeeded


def _nodes(store: Store, plan: RosCollection, robot: str, there: int, missing: int) -> tuple[NodeSpec, ...]:
    given = {
        "robots": robot,
        "store": str(store.path),
        "world": plan.world,
        "policy": plan.policy,
        "image_size": str(plan.image_size),
        "real_time_factor": str(plan.real_time_factor),
        "seed": str(plan.seed + plan.robots.index(robot) * SEEDS_APART + there),
        "episodes": str(missing),
    }
    if plan.arm_config:
        given["arm_config"] = plan.arm_config
    return find_system("collect").nodes(given)


def _count(store: Store, plan: RosCollection, robot: str) -> tuple[int, int]:
    """Episodes and successes of this robot and policy in the store."""
    mine = [e for e in store.episodes() if (e.robot, e.behaviour_policy) == (robot, plan.policy)]
    return len(mine), sum(e.label.is_success is True for e in mine)


def _outcomes(store: Path) -> int:
    return sum(1 for _ in store.glob("episodes/**/*.json")) + sum(1 for _ in store.glob("quarantine/**/*.json"))
