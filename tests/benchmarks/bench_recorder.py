"""Seven robots record at once over DDS, with joint states and camera info: what is lost, memory growth, processor time.

python -m tests.benchmarks.bench_recorder --seconds 60
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from mcap.reader import make_reader

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.reach import stay_on_this_machine
from opc_ros.store import Store, open_store, schemas
from tests.domains import take_domain

JOINTS_HZ = 100.0
STEPS_OF_AN_EPISODE = 7  # of the scripted arm: four down, close, lift, terminate


@dataclass
class Load:
    """Memory and processor time of some processes, sampled once per second."""

    processes: list[psutil.Process]
    rss_bytes: list[int] = field(default_factory=list)
    cpu_s: float = 0.0

    def sample(self) -> None:
        infos = [(p.memory_info().rss, sum(p.cpu_times()[:2])) for p in self.processes if p.is_running()]
        self.rss_bytes.append(sum(rss for rss, _ in infos))
        self.cpu_s = sum(cpu for _, cpu in infos)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--robots", type=int, default=7)
    parser.add_argument("--rate", type=float, default=10.0, help="steps each second of each robot")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_recorder_") as folder, take_domain() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), **stay_on_this_machine())
        measure(Path(folder), arguments.seconds, arguments.robots, arguments.rate)


def measure(folder: Path, seconds: float, robots: int, rate_hz: float) -> None:
    episodes = max(1, round(seconds * rate_hz / STEPS_OF_AN_EPISODE))
    names = [f"arm{number}" for number in range(1, robots + 1)]
    recorders = [start(NodeSpec("recorder", name, {"store": str(folder / "store")}), folder) for name in names]
    arms = [
        start(
            NodeSpec("scripted_arm", name, {"rate_hz": rate_hz, "episodes": episodes, "image_size": 472, "seed": seed}),
            folder,
        )
        for seed, name in enumerate(names)
    ]
    drivers = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.drivers", *names, "--rate", str(JOINTS_HZ)])
    recording, acting = (Load([psutil.Process(child.pid) for child in group]) for group in (recorders, arms))
    others_before, began = psutil.cpu_times(), time.monotonic()
    try:
        # The arms end by themselves; a machine that cannot keep up gets three times as long.
        while any(arm.poll() is None for arm in arms) and time.monotonic() - began < 3 * seconds + 30:
            if len(list(folder.glob("store/episodes/*"))) == robots:
                recording.sample()
            if all(arm.poll() is None for arm in arms):
                acting.sample()
            time.sleep(1.0)
        took_s = time.monotonic() - began
    finally:
        for child in (*arms, *recorders, drivers):
            child.send_signal(signal.SIGINT)
        codes = [child.wait(30) for child in (*arms, *recorders, drivers)]
    busy = psutil.cpu_times()
    busy_s = sum(getattr(busy, name) - getattr(others_before, name) for name in ("user", "nice", "system"))
    report(folder, recording, acting, told=robots * episodes * STEPS_OF_AN_EPISODE, took_s=took_s, busy_s=busy_s)
    if any(codes):
        print(f"exit codes: {codes} (goal all 0)")


def report(folder: Path, recording: Load, acting: Load, *, told: int, took_s: float, busy_s: float) -> None:
    store = open_store(folder / "store")
    committed = list(store.episodes())
    stored = sum(episode.steps for episode in committed)
    quarantined, unreadable = store.quarantined()
    unhealthy = sum(bool(episode.health) for episode in committed)
    quarter = max(1, len(recording.rss_bytes) // 4)
    early, late = recording.rss_bytes[quarter : 2 * quarter], recording.rss_bytes[-quarter:]
    growth = (sum(late) / len(late)) / (sum(early) / len(early)) if early else float("nan")
    robots = len(recording.processes)
    print(f"frames stored of frames published: {stored / told:.4f} ({stored} of {told}; goal 1.0000)")
    held, gaps, infos = count_beside(store)
    print(f"joint states missing between the first and last of an episode: {gaps} of {held + gaps} (goal 0)")
    print(f"episodes without camera info: {len(committed) - infos} of {len(committed)} (goal 0)")
    print(f"load average beside these figures: {os.getloadavg()[0]:.1f}")
    print(f"episodes quarantined: {len(quarantined) + len(unreadable)} (goal 0)")
    print(f"episodes saved with a remark on health: {unhealthy} of {len(committed)}")
    print(f"recorders' memory, last quarter to second quarter: {growth:.3f} (goal 1.00 to 1.05)")
    print(f"recorders' memory each: {recording.rss_bytes[-1] / robots / 1e6:.0f} MB")
    print(f"recorders' share of two cores: {recording.cpu_s / took_s / 2:.3f} ({robots} processes, with their start)")
    print(f"arms' share of two cores: {acting.cpu_s / took_s / 2:.3f}")
    print(f"whole machine's share of its cores, others included: {busy_s / took_s / (os.cpu_count() or 1):.3f}")
    print(f"took {took_s:.1f} s for {told / robots:.0f} steps each")


def count_beside(store: Store) -> tuple[int, int, int]:
    """Joint states kept, those missing by the numbers in their timestamps, and episodes with camera info."""
    held = gaps = infos = 0
    for path in store.path.rglob("*.mcap"):
        with path.open("rb") as file:
            found: dict[str, list[int]] = {}
            for schema, _, message in make_reader(file).iter_messages(log_time_order=False):
                found.setdefault(schema.name if schema else "", []).append(message.publish_time)
        stamps = sorted(found.get(schemas.JOINT_STATE, []))[1:]  # the first may be from before the episode
        held += len(stamps)
        gaps += sum(round((after - before) * JOINTS_HZ / 1e9) - 1 for before, after in itertools.pairwise(stamps))
        infos += schemas.CAMERA_INFO in found
    return held, gaps, infos


def start(node: NodeSpec, folder: Path) -> subprocess.Popen[bytes]:
    log = folder / f"{node.label.replace('/', '-')}.log"
    with log.open("wb") as sink:
        return subprocess.Popen(node.command(), stdout=sink, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    main()
