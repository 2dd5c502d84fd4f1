"""Robot time that the race saves, and seven arms under one scheduler: idle time and double runs.

python -m tests.benchmarks.bench_deployment --episodes 500
python -m tests.benchmarks.bench_deployment --arms twin --episodes 500   # physics of seven twins: half an hour or more
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from opc_ros.bringup.nodes import NodeSpec, Parameter
from opc_ros.bringup.reach import stay_on_this_machine
from opc_ros.cli.deploy_simulation import published_table
from opc_ros.deployment.approval_queue import NewRequest, submit_request
from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.decision import Decision, Finding, Verdict
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.simulation import simulate_table
from tests.deployment.lab import make_lab, runner_parameters, scheduler_parameters, write_patient_arm
from tests.domains import take_domain

# This counts who runs what, not how long a busy machine takes for it.
PATIENCE_S = 30.0
PAPER_EPISODES = 10_710


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--robots", type=int, default=7)
    parser.add_argument("--arms", choices=("scripted", "twin"), default="scripted")
    parser.add_argument("--real-time-factor", type=float, default=2.0, help="of the twins (default: 2)")
    arguments = parser.parse_args()
    if arguments.runs:
        measure_race(arguments.runs)
    with tempfile.TemporaryDirectory(prefix="bench_deployment_") as folder, take_domain() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), **stay_on_this_machine())
        fleet = Fleet(Path(folder), arguments.robots, arguments.arms, arguments.real_time_factor)
        measure_fleet(fleet, arguments.episodes)


def measure_race(runs: int) -> None:
    table = published_table()
    for is_shuffled in (False, True):
        began = time.perf_counter()
        rng = np.random.default_rng(0)
        result = simulate_table(table, RaceRules(), runs, rng, is_score_shuffled=is_shuffled)
        took_s = time.perf_counter() - began
        what = "with scores that say nothing" if is_shuffled else "with the paper's scores (goal 95 %)"
        share = result.trials.sum(axis=1).mean() / PAPER_EPISODES
        good = result.good_fraction(0.03)
        print(f"within 3 points of the best, {what}: {good:.1%} of {runs} runs in {took_s:.1f} s")
        print(f"  robot episodes against the paper's {PAPER_EPISODES}: {share:.3f} (goal 0.1)")


@dataclass(frozen=True)
class Fleet:
    """Arms in processes of their own, policies with real networks, real DDS."""

    folder: Path
    robots: int
    arms: str
    real_time_factor: float

    @property
    def names(self) -> list[str]:
        return [f"arm{number}" for number in range(1, self.robots + 1)]

    def nodes(self) -> list[NodeSpec]:
        changes: dict[str, object] = {"heartbeat_s": PATIENCE_S}
        if self.arms == "twin":
            config = self.folder / "arm.yaml"
            write_patient_arm(config, 4 * PATIENCE_S)
            changes |= {"arm": "ros", "arm_config": str(config)}
        runners = [(name, runner_parameters(self.folder, name, ["full"], **changes)) for name in self.names]
        return [
            *(NodeSpec("policy_runner", name, _plain(parameters)) for name, parameters in runners),
            *(self._twin(number, name) for number, name in enumerate(self.names) if self.arms == "twin"),
            NodeSpec("scheduler", "", _plain(scheduler_parameters(self.folder))),
        ]

    def _twin(self, number: int, name: str) -> NodeSpec:
        parameters: dict[str, Parameter] = {
            "image_size": 64,
            "camera_hz": 5.0,
            "joint_state_hz": 50.0,
            "seed": number,
            "niceness": 5,
        }
        patience: dict[str, Parameter] = {"command_timeout_s": 2 * PATIENCE_S}
        return NodeSpec("twin", name, parameters | patience | {"real_time_factor": self.real_time_factor})


def measure_fleet(fleet: Fleet, episodes: int) -> None:
    folder, names = fleet.folder, fleet.names
    each = -(-episodes // 5)
    candidates = make_lab(
        folder,
        {name: ["full"] for name in names},
        candidates=5,
        rung_episodes=(0, 0, each),
        request_episodes=each,
        batch_episodes=5,
        heartbeat_s=PATIENCE_S,
    )
    specs = fleet.nodes()
    nodes = [_start(spec, folder) for spec in specs]
    try:
        from opc_ros.config import load_config

        rules = load_config(folder / "scheduler.yaml", SchedulerRules)
        with DeploymentFolder(folder / "deployment").open() as (queue, _):
            for rank, candidate in enumerate(candidates):
                decision = Decision(candidate.id, "", (Finding("top_k", Verdict.PASS, "benchmark"),))
                path = str(candidate.folder)
                asked = NewRequest(candidate.id, candidate.name, path, 0.5 - 0.01 * rank, "bench", episodes=each)
                submit_request(queue, rules, asked, decision, f"r{rank}", time.time_ns())
            while queue.requests("queued"):
                time.sleep(0.5)
                _show(queue.rows("SELECT count(*) FROM results")[0][0], episodes)
                for spec, node in zip(specs, nodes, strict=True):
                    if node.poll() is not None:
                        sys.exit(f"{spec.label} ended by itself: {_log(spec, folder).read_text()[-500:]}")
            ran = queue.rows("SELECT count(*), count(DISTINCT episode_id) FROM results")[0]
            leases = [row[0] for row in queue.rows("SELECT id FROM leases")]
    finally:
        for node in nodes:
            node.send_signal(signal.SIGINT)
        for node in nodes:
            node.wait(timeout=60)
    journals = [RobotJournal(folder / name / "journal.db", 0) for name in names]
    begun = [run.episode_id for journal in journals for lease in leases for run in journal.episodes_of(lease)]
    doubles = len(begun) - len(set(begun))
    broken = sum(run.outcome == "aborted" for journal in journals for id in leases for run in journal.episodes_of(id))
    print(
        f"episodes run on {fleet.robots} {fleet.arms} arms: {len(begun)}, counted {ran[0]}, broken off {broken}, "
        f"run twice: {doubles} (goal 0)"
    )
    _print_idle(folder / "deployment" / "audit.jsonl", names)
    _print_handover(folder, names)


def _print_idle(audit_log: Path, names: list[str]) -> None:
    """From the end of one lease to the grant of the next, up to the last grant, after which no work is queued."""
    granted, ended = defaultdict(list), defaultdict(list)
    for entry in read_audit_log(audit_log):
        if entry.kind == "permit":
            granted[entry.body["robot"]].append(entry.at_ns)
        elif entry.kind == "lease_ended":
            ended[entry.body["robot"]].append(entry.at_ns)
    last = max(max(times) for times in granted.values())
    first = {name: granted[name][0] for name in names}
    gaps = np.array(
        [
            after - before
            for name in names
            for before, after in zip(ended[name], [*granted[name][1:], last], strict=False)
            if before < last and after >= before
        ]
    )
    span_ns = sum(last - begun for begun in first.values())
    print(f"idle while work was queued: {gaps.sum() / span_ns:.2%} of arm time, longest {gaps.max() / 1e6:.0f} ms")


def _print_handover(folder: Path, names: list[str]) -> None:
    """From the end of an arm's last episode of a lease to the runner's report that it has the next lease."""
    began: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for entry in read_audit_log(folder / "deployment" / "audit.jsonl"):
        if entry.kind == "began":
            began[entry.body["robot"]].append((entry.at_ns, entry.body["lease_id"]))
    gaps, span_ns = [], 0
    for name in names:
        ended: dict[str, int] = {}
        for entry in read_audit_log(folder / name / "audit.jsonl"):
            if entry.kind == "episode":
                ended[entry.body["episode_id"].rpartition("-")[0]] = entry.at_ns
        for (_, before), (after_ns, _) in pairwise(began[name]):
            if before in ended:
                gaps.append(after_ns - ended[before])
        span_ns += max(ended.values()) - began[name][0][0]
    middle, high = np.percentile(gaps, (50, 99)) / 1e6
    print(
        f"from an episode's end to the next lease: {sum(gaps) / span_ns:.2%} of arm time, median {middle:.0f} ms, "
        f"99th percentile {high:.0f} ms, longest {max(gaps) / 1e6:.0f} ms"
    )


def _show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{total} episodes", end="", file=sys.stderr)


def _plain(values: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    plain: dict[str, bool | int | float | str] = {}
    for name, value in values.items():
        assert isinstance(value, bool | int | float | str)
        plain[name] = value
    return plain


def _log(spec: NodeSpec, folder: Path) -> Path:
    return folder / f"{spec.label.replace('/', '-')}.log"


def _start(spec: NodeSpec, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with _log(spec, folder).open("wb") as sink:
        return subprocess.Popen(spec.command(), stdout=sink, stderr=subprocess.STDOUT, env=environment)


if __name__ == "__main__":
    main()
