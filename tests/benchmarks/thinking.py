"""How long a greedy action takes in a candidate's own process: each family of the zoo, and a QT-Opt sized network.

In wall clock time, as an arm would wait, and in processor time, for machines with other load.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.architectures import QT_OPT_PARAMETERS
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.q_function import Observations
from opc_ros.policies.worker.loader import shared_host
from tests.benchmarks.zoo_scoring import find_below
from tests.policies.making import make_candidate, make_episode

ZOO = Path("sim_bridge/zoo/candidates")
THOUGHTS = 30


def measure_thinking() -> None:
    families: dict[str, Candidate] = {}
    for folder in sorted(ZOO.iterdir()):
        candidate = read_candidate(folder)
        families.setdefault(candidate.manifest.architecture, candidate)
    for architecture, candidate in families.items():
        goal = " (goal below 15 ms)" if architecture == "target_crop" else ""
        wall_s, processor_s = _measure_medians(candidate)
        print(
            f"a greedy action of {architecture} ({candidate.name}): {1e3 * wall_s:.1f} ms, "
            f"{1e3 * processor_s:.1f} ms of processor time{goal}"
        )
    with tempfile.TemporaryDirectory() as name:
        plain: dict[str, Any] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(QT_OPT_PARAMETERS).items()
        }
        search = CrossEntropySearch(samples=64, elites=6, rounds=2)
        large = make_candidate(Path(name), image_size=472, search=search, **plain)
        wall_s, processor_s = _measure_medians(large, thoughts=7)
        print(
            f"a greedy action of the QT-Opt sized network at 472x472, 64 samples x 2 rounds: {wall_s:.2f} s, "
            f"{processor_s:.2f} s of processor time, on one core (goal below 1 s)"
        )
    print(f"load average {os.getloadavg()[0]:.1f}")


def _measure_medians(candidate: Candidate, thoughts: int = THOUGHTS) -> tuple[float, float]:
    """Seconds of wall clock, and of processor time in this process and the candidate's together."""
    episode = make_episode(0, image_size=472, steps=5)
    size = candidate.manifest.input.image_size
    images = np.stack([resize_image(step.frame.decode(), size) for step in episode.steps])
    seen = Observations(images, episode.states())
    took = []
    with closing(shared_host().load_policy(candidate)) as policy:
        processes = find_below(os.getpid())
        for number in range(thoughts):
            row = number % len(seen)
            began = np.array([time.perf_counter(), _processor_s(processes)])
            policy.decide_each(seen.rows(row, row + 1), seed=number)
            took.append(np.array([time.perf_counter(), _processor_s(processes)]) - began)
    wall_s, processor_s = np.median(took[2:], axis=0).tolist()
    return wall_s, processor_s


def _processor_s(processes: Sequence[int]) -> float:
    """Processor time of this process and those, to the nanosecond; /proc only has hundredths of a second."""
    total = time.process_time()
    for process in processes:
        with suppress(OSError):  # it may have ended
            total += time.clock_gettime(_clock_of(process))
    return total


def _clock_of(process: int) -> int:
    """The id that Linux gives the processor clock of a process: clock_getcpuclockid(3)."""
    return (~process << 3) | 2


if __name__ == "__main__":
    measure_thinking()
