"""The same scoring with the code of an earlier commit and with today's, alternating on one machine.

python -m tests.benchmarks.before_and_now [EPISODES [TURNS [CANDIDATES]]]; see zoo_scoring.py for the last
"""

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
LARGE_FIELD = 65
_REPOSITORY = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("zoo_scoring.py")


def compare_with_before(episodes: int = EPISODES, turns: int = TURNS, few: int = 0) -> None:
    """Q values per second for that commit's whole zoo, with that commit's code and with today's."""
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
            files.extractall(old)
        zoo = old / "sim_bridge" / "zoo" / "candidates"
        before, now = _Total(), _Total()
        for _ in range(turns):
            before.add(_run(old, zoo, episodes, few))
            now.add(_run(_REPOSITORY, zoo, episodes, few))
    candidates, cores = now.candidates, len(os.sched_getaffinity(0))
    print(
        f"scoring {candidates} candidates on {episodes} episodes of 472x472, {cores} cores, load average "
        f"{now.load:.1f}: {now.wall_rate:.0f} Q values a second, {BEFORE} {before.wall_rate:.0f}: "
        f"{now.wall_rate / before.wall_rate:.1f} times by wall clock, "
        f"{before.processor_s / now.processor_s:.1f} times by processor time (goal at least 4)"
    )
    print(f"mean Q then and now: {before.mean_q:.9f} and {now.mean_q:.9f}")
    set_minutes = now.processor_s / turns / episodes * LARGE_SET / cores / 60
    print(
        f"{LARGE_SET:,} episodes of 10 steps x {candidates} candidates: {set_minutes:.1f} minutes of {cores} cores to "
        f"themselves, x {LARGE_FIELD}: {set_minutes * LARGE_FIELD / candidates:.1f} (goal below 12), both extrapolated "
        f"from the processor time of {episodes} episodes, loading included"
    )


class _Total:
    def __init__(self) -> None:
        self.candidates, self.q_values, self.wall_s, self.processor_s, self.mean_q, self.load = 0, 0, 0.0, 0.0, 0.0, 0.0

    def add(self, found: dict[str, float]) -> None:
        self.candidates = int(found["candidates"])
        self.q_values += int(found["q_values"])
        self.wall_s += found["wall_s"]
        self.processor_s += found["processor_s"]
        self.mean_q, self.load = found["mean_q"], found["load"]

    @property
    def wall_rate(self) -> float:
        return self.q_values / self.wall_s


def _run(tree: Path, zoo: Path, episodes: int, few: int) -> dict[str, float]:
    """In a process of its own, which measures the processor time of all its descendants."""
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(zoo), str(episodes), *([str(few)] if few else [])],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    compare_with_before(*map(int, sys.argv[1:]))
