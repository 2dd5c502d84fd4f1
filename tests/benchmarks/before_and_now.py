"""The same scoring in the tree of an earlier commit and in this one, turn by turn on the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

BEFORE = "c9b11a9"
EPISODES = 64  # of 10 steps, images of 472x472
TURNS = 2
LARGE_SET = 4000
_REPOSITORY = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("zoo_scoring.py")


def compare_with_before() -> None:
    """Q values a second of the whole zoo of that commit, by the code of that commit and by today's."""
    with tempfile.TemporaryDirectory() as name:
        old = Path(name)
        archive = subprocess.run(
            ["git", "-C", str(_REPOSITORY), "archive", BEFORE, "opc_ros", "sim_bridge", "tests", "config"],
            capture_output=True,
            check=False,
        )
        if archive.returncode:
            print(f"before and now: {BEFORE} is not in this clone's history (a shallow one?); not compared")
            return
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(old, filter="data")
        zoo = old / "sim_bridge" / "zoo" / "candidates"
        candidates = len(list(zoo.iterdir()))
        before, now = _Total(), _Total()
        for _ in range(TURNS):
            before.add(_run(old, zoo))
            now.add(_run(_REPOSITORY, zoo))
    cores = len(os.sched_getaffinity(0))
    print(
        f"scoring {candidates} candidates on {EPISODES} episodes of 472x472, {cores} cores, load average "
        f"{now.load:.1f}: {now.wall_rate:.0f} Q values a second, {BEFORE} {before.wall_rate:.0f}: "
        f"{now.wall_rate / before.wall_rate:.1f} times by wall clock, "
        f"{before.processor_s / now.processor_s:.1f} times by processor time (goal at least 4)"
    )
    print(f"mean Q then and now: {before.mean_q:.9f} and {now.mean_q:.9f}")
    minutes = now.processor_s / TURNS / EPISODES * LARGE_SET / cores / 60
    print(
        f"{LARGE_SET:,} episodes of 10 steps x {candidates} candidates: {minutes:.1f} minutes of {cores} cores to "
        f"themselves, by processor time of {EPISODES} episodes including loading (goal below 12)"
    )


class _Total:
    def __init__(self) -> None:
        self.q_values, self.wall_s, self.processor_s, self.mean_q, self.load = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, found: dict[str, float]) -> None:
        self.q_values += int(found["q_values"])
        self.wall_s += found["wall_s"]
        self.processor_s += found["processor_s"]
        self.mean_q, self.load = found["mean_q"], found["load"]

    @property
    def wall_rate(self) -> float:
        return self.q_values / self.wall_s


def _run(tree: Path, zoo: Path) -> dict[str, float]:
    """In a session of its own, so that the processor time of all its processes can be told from others'."""
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(zoo), str(EPISODES)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    compare_with_before()
