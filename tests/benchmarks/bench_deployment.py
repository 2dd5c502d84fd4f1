"""Robot time the race saves, and seven arms under one scheduler: idle time and double runs.

python -m tests.benchmarks.bench_deployment --episodes 500
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
from pathlib import Path

import numpy as np
from domain_coordinator import domain_id

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.cli.deploy import published_table
from opc_ros.deployment.decision import Decision, Finding, Verdict
from opc_ros.deployment.desk import Asked, file_request
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.ledger_check import read_ledger
from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.deployment.simulation import simulate_races

PAPER_EPISODES = 10_710


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--robots", type=int, default=7)
    arguments = parser.parse_args()
    measure_race(arguments.runs)
    with tempfile.TemporaryDirectory(prefix="bench_deployment_") as folder, domain_id() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
        measure_fleet(Path(folder), arguments.robots, arguments.episodes)


def measure_race(runs: int) -> None:
    table = published_table()
    for is_shuffled in (False, True):
        began = time.perf_counter()
        rng = np.random.default_rng(0)
        result = simulate_races(table, RaceRules(), runs, rng, is_score_shuffled=is_shuffled)
        took_s = time.perf_counter() - began
        what = "with scores that say nothing" if is_shuffled else "with the paper's scores (goal 95 %)"
        share = result.episodes_mean / PAPER_EPISODES
        print(f"within 3 points of the best, {what}: {result.good_fraction:.1%} of {runs} runs in {took_s:.1f} s")
        print(f"  robot episodes against the paper's {PAPER_EPISODES}: {share:.3f} (goal 0.1)")
        ratio = result.equal_episodes / result.episodes_mean
        print(f"  equal testing for the same quality: {ratio:.1f} times the episodes ({result.equal_episodes})")


def measure_fleet(folder: Path, robots: int, episodes: int) -> None:
    """Scripted arms in processes of their own, policies that think with real networks, real DDS."""
    from tests.deployment.lab import make_lab, runner_parameters, scheduler_parameters

    names = [f"arm{number}" for number in range(1, robots + 1)]
    each = -(-episodes // 5)
    candidates = make_lab(
        folder,
        {name: ["full"] for name in names},
        candidates=5,
        rung_episodes=(0, 0, each),
        request_episodes=each,
        batch_episodes=5,
    )
    specs = [NodeSpec("policy_runner", name, _plain(runner_parameters(folder, name, ["full"]))) for name in names]
    specs.append(NodeSpec("scheduler", "", _plain(scheduler_parameters(folder))))
    nodes = [_start(spec, folder) for spec in specs]
    try:
        from opc_ros.config import load_config

        rules = load_config(folder / "scheduler.yaml", SchedulerRules)
        with DeploymentFolder(folder / "deployment").open() as (queue, _):
            for rank, candidate in enumerate(candidates):
                decision = Decision(candidate.id, "", (Finding("top_k", Verdict.PASS, "benchmark"),))
                path = str(candidate.folder)
                asked = Asked(candidate.id, candidate.name, path, 0.5 - 0.01 * rank, "bench", episodes=each)
                file_request(queue, rules, asked, decision, f"r{rank}", time.time_ns())
            while queue.requests("queued"):
                time.sleep(0.5)
                for spec, node in zip(specs, nodes, strict=True):
                    if node.poll() is not None:
                        sys.exit(f"{spec.label} ended by itself: {_log(spec, folder).read_text()[-500:]}")
            ran = queue.rows("SELECT count(*), count(DISTINCT episode_id) FROM results")[0]
            leases = [row[0] for row in queue.rows("SELECT id FROM leases")]
    finally:
        for node in nodes:
            node.send_signal(signal.SIGINT)
        for node in nodes:
            node.wait(timeout=30)
    journals = [RobotJournal(folder / name / "journal.db", 0) for name in names]
    begun = [run.episode_id for journal in journals for lease in leases for run in journal.episodes_of(lease)]
    doubles = len(begun) - len(set(begun))
    print(f"episodes run on {robots} arms: {len(begun)}, counted {ran[0]}, run twice: {doubles} (goal 0)")
    _print_idle(folder / "deployment" / "ledger.jsonl", names)


def _print_idle(ledger: Path, names: list[str]) -> None:
    """From the end of one lease to the grant of the next, up to the last grant, after which no work was queued."""
    granted, ended = defaultdict(list), defaultdict(list)
    for entry in read_ledger(ledger):
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
