"""Does a lab that runs for hours stay as it is? Seven scripted arms, recorders, scorer and scheduler, monitored.

    nice -n 10 python -m tests.faults.soak --hours 2 --out soak

Four arms play a script and three run candidates under permits, all over DDS in a domain of their own, at step rates
that take about a third of a core. Every 30 s memory, descriptors and threads of each process and DDS's files in
/dev/shm are written to soak/samples.jsonl. Goals: memory of every process flat within 3 % after the warm-up, /dev/shm,
descriptors and threads flat, every node alive to the end, every episode unchanged since its commit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import heed_signals
from opc_ros.cli.progress_bar import progress_bar
from opc_ros.deployment.statement import RequestBody
from tests.deployment.lab import make_lab, runner_parameters, say, scheduler_parameters
from tests.domains import own_domain
from tests.faults.crew import Crew

SCRIPTED = ("arm1", "arm2", "arm3", "arm4")
LENT = ("arm5", "arm6", "arm7")
CANDIDATES = 3
MEMORY_GROWTH = 0.03
# A file or thread that is open at one moment and not at the next is no leak; one per episode would be hundreds.
ALLOWED_GROWTH = {"private_mb": MEMORY_GROWTH, "descriptors": 0.15, "threads": 0.15}
WARM_UP_SHARE = 0.25  # of the whole, at most half an hour: caches fill, imports happen on first use
MOST_WARM_UP_S = 1800.0


@dataclass(frozen=True, slots=True)
class Drift:
    """How one figure changed between the first and the last fifth after the warm-up."""

    what: str
    before: float
    after: float
    allowed: float  # fraction of `before` by which it may grow

    @property
    def growth(self) -> float:
        return (self.after - self.before) / self.before if self.before else float(self.after > 0)

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0, help="how long (default 2)")
    parser.add_argument("--out", type=Path, default=Path("soak"), help="folder of lab, logs and samples (default soak)")
    parser.add_argument("--rate-hz", type=float, default=0.7, help="steps each second of a scripted arm (default 0.7)")
    parser.add_argument("--rest-s", type=float, default=20.0, help="rest of a leased arm after an episode (default 20)")
    parser.add_argument("--rescore-s", type=float, default=120.0, help="how often to score again (default 120)")
    parser.add_argument("--every-s", type=float, default=30.0, help="time between two samples (default 30)")
    parser.add_argument("--judge", action="store_true", help="only judge the samples that are there")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    arguments = parser.parse_args(argv)
    heed_signals()
    if not arguments.judge:
        soak(arguments)
    return tell(arguments.out, is_json=arguments.json)


def soak(arguments: argparse.Namespace) -> None:
    lab = arguments.out.resolve()
    if lab.exists():
        raise SystemExit(f"{lab}: exists; delete it, name another --out, or judge it with --judge")
    lab.mkdir(parents=True)
    candidates = prepare(lab, arguments.rest_s)
    with own_domain(), Crew(nodes_of(lab, arguments), lab / "logs") as crew:
        for name in crew.nodes:
            crew.start(name)
        ask_for(lab, candidates)
        watch(crew, lab, arguments)
        (lab / "exits.json").write_text(json.dumps(crew.stop()))
    checked = subprocess.run(
        [sys.executable, "-m", "opc_ros.cli.main", "store", "verify", "--json", "--store", str(lab / "store")],
        capture_output=True,
        text=True,
    )
    (lab / "verify.json").write_text(checked.stdout or json.dumps({"problems": [checked.stderr]}))


def prepare(lab: Path, rest_s: float) -> list[str]:
    """A lab whose race never ends and whose leased arms rest after every episode; returns the candidates' ids."""
    robots = {robot: ["full"] for robot in LENT}
    episodes = {"rung_episodes": (0, 0, 100_000), "request_episodes": 100_000, "batch_episodes": 2}
    made = make_lab(lab, robots, candidates=CANDIDATES, heartbeat_s=20.0, **episodes)  # type: ignore[arg-type]
    rules = yaml.safe_load((lab / "scheduler.yaml").read_text())
    rules["rest"] = {"after_episodes": 1, "pause_s": rest_s}
    rules["race"] |= {
        "budget_episodes": 10_000_000,
        "confidence": 0.9999,
        "drop_below": 0.0,
        "crown_confidence": 0.9999,
    }
    (lab / "scheduler.yaml").write_text(yaml.safe_dump(rules))
    return [candidate.id for candidate in made]


def nodes_of(lab: Path, arguments: argparse.Namespace) -> dict[str, NodeSpec]:
    store, candidates = str(lab / "store"), str(lab / "candidates")
    # It begins with the lab's ranking, and receives the scorer's as they are published.
    scheduler = scheduler_parameters(lab)
    scorer = {"store": store, "candidates": candidates, "scores": str(lab / "scores"), "workers": 1}
    scorer |= {"keys": str(lab / "deployment" / "keys"), "metric": "soft_opc", "resamples": 100}
    nodes = [
        NodeSpec("scheduler", "", scheduler | {"tick_s": 0.5}),  # type: ignore[arg-type]
        NodeSpec("scorer", "", scorer | {"rescore_s": arguments.rescore_s}),  # type: ignore[arg-type]
    ]
    # Frames are as rare as steps, so the recorder must not take that for a camera problem.
    calm = {"min_frame_rate_hz": 0.0, "max_frame_gap_s": 60.0, "min_disk_free_mb": 100.0}
    for number, robot in enumerate((*SCRIPTED, *LENT)):
        nodes.append(NodeSpec("recorder", robot, {"store": store, **calm}))
        if robot in SCRIPTED:
            script = {"seed": number, "rate_hz": arguments.rate_hz, "image_size": 64}
            nodes.append(NodeSpec("scripted_arm", robot, script))  # type: ignore[arg-type]
        else:
            runner = runner_parameters(lab, robot, ["full"], heartbeat_s=20.0, wait_for_recorder=True)
            nodes.append(NodeSpec("policy_runner", robot, runner))  # type: ignore[arg-type]
    return {node.label: node for node in nodes}


def ask_for(lab: Path, candidates: Sequence[str]) -> None:
    """Request robot time for each candidate, over ROS like everybody."""
    from opc_interfaces.srv import SubmitStatement

    from tests.ros.conftest import Probe

    probe = Probe()
    try:
        for candidate in candidates:
            statement = say(lab, "request", RequestBody(candidate))
            answer = probe.call(SubmitStatement, "/deployment/statement", statement=statement)
            if not answer.success:
                raise SystemExit(f"request refused: {answer.message}")
    finally:
        probe.close()


def watch(crew: Crew, lab: Path, arguments: argparse.Namespace) -> None:
    """Sample until the time is over or a node has ended."""
    began_s, total_s = time.monotonic(), arguments.hours * 3600.0
    next_s = 0.0
    with progress_bar("soaking") as report, (lab / "samples.jsonl").open("a") as sink:
        while next_s <= total_s and not crew.ended():
            time.sleep(max(0.0, began_s + next_s - time.monotonic()))
            sink.write(json.dumps(sample(crew, lab, time.monotonic() - began_s)) + "\n")
            sink.flush()
            report(round(next_s), round(total_s), f"load {os.getloadavg()[0]:.1f}")
            next_s += arguments.every_s


def sample(crew: Crew, lab: Path, at_s: float) -> dict[str, Any]:
    """Private memory, descriptors and threads of each process, and the number of processes it has started."""
    processes = {}
    for name, pid in crew.pids().items():
        process = psutil.Process(pid)
        memory = process.memory_full_info()
        processes[name] = {
            "private_mb": memory.uss / 1e6,
            "resident_mb": memory.rss / 1e6,
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "children": len(process.children(recursive=True)),
            "cpu_s": sum(process.cpu_times()[:4]),
        }
    return {
        "at_s": round(at_s, 1),
        "load": os.getloadavg()[0],
        "processes": processes,
        "shared_memory": _shared_memory(crew),
        "episodes": sum(1 for _ in (lab / "store" / "episodes").rglob("*.json")),
    }


def _shared_memory(crew: Crew) -> dict[str, float]:
    """What these processes have mapped of /dev/shm: the folder itself is shared with others."""
    names = set()
    for pid in crew.pids().values():
        text = Path(f"/proc/{pid}/maps").read_text()
        names |= {word for word in text.split() if word.startswith("/dev/shm/")}
    blocks = [os.stat(name).st_blocks * 512 for name in names if os.path.exists(name)]
    return {"files": len(names), "mb": sum(blocks) / 1e6}


def judge(samples: Sequence[dict[str, Any]]) -> list[Drift]:
    """Compare the first fifth of the time after the warm-up with the last."""
    warm_up_s = min(MOST_WARM_UP_S, WARM_UP_SHARE * samples[-1]["at_s"])
    kept = [each for each in samples if each["at_s"] >= warm_up_s]
    fifth = max(1, len(kept) // 5)
    first, last = kept[:fifth], kept[-fifth:]

    def drift(what: str, figure: Any, allowed: float) -> Drift:
        before, after = (statistics.median(figure(each) for each in part) for part in (first, last))
        return Drift(what, before, after, allowed)

    drifts = [drift("/dev/shm, MB", lambda each: each["shared_memory"]["mb"], MEMORY_GROWTH)]
    for name in sorted(samples[0]["processes"]):
        for key, allowed in ALLOWED_GROWTH.items():

            def figure(each: dict[str, Any], name: str = name, key: str = key) -> float:
                return float(each["processes"][name][key])

            drifts.append(drift(f"{name}: {key}", figure, allowed))
    return drifts


def tell(lab: Path, *, is_json: bool) -> int:
    samples = [json.loads(line) for line in (lab / "samples.jsonl").read_text().splitlines()]
    alive = set(samples[0]["processes"])
    missing = sorted(alive - set(samples[-1]["processes"]))
    samples = [each for each in samples if set(each["processes"]) == alive]
    drifts = judge(samples)
    verified = json.loads((lab / "verify.json").read_text()) if (lab / "verify.json").exists() else None
    problems = verified["problems"] if verified else ["not verified yet"]
    grown = [each for each in drifts if not each.is_flat]
    span_s = samples[-1]["at_s"]
    spent_s = sum(each["cpu_s"] for each in samples[-1]["processes"].values())
    result = {
        "hours": span_s / 3600.0,
        "warm_up_s": min(MOST_WARM_UP_S, WARM_UP_SHARE * span_s),
        "cores": spent_s / span_s if span_s else 0.0,
        "episodes": samples[-1]["episodes"],
        "ended_early": missing,
        "problems": problems,
        "grown": [each.what for each in grown],
        "drifts": {each.what: [each.before, each.after, each.growth] for each in drifts},
    }
    if is_json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{'':32s} {'before':>9s} {'after':>9s} {'growth':>8s}")
        for each in drifts:
            mark = "" if each.is_flat else "  GROWS"
            print(f"{each.what:32s} {each.before:9.1f} {each.after:9.1f} {each.growth:+8.2%}{mark}")
        print(
            f"{result['hours']:.2f} h, the first {result['warm_up_s']:.0f} s of them warm-up, {result['cores']:.2f} "
            f"cores, {result['episodes']} episodes; ended early: {', '.join(missing) or 'none'}; "
            f"store: {problems or 'all as committed'}"
        )
    return int(bool(grown or missing or problems))


if __name__ == "__main__":
    sys.exit(main())
