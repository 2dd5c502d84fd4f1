"""How long a greedy action takes in a candidate's own process: each family of the zoo, and the QT-Opt sized network."""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.architectures import QT_OPT_PARAMETERS
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.q_function import Observations, resize_image
from opc_ros.policies.worker.loader import shared_host
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
        print(f"a greedy action of {architecture} ({candidate.name}): {1e3 * _median_s(candidate):.1f} ms{goal}")
    with tempfile.TemporaryDirectory() as name:
        plain: dict[str, Any] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(QT_OPT_PARAMETERS).items()
        }
        search = CrossEntropySearch(samples=64, elites=6, rounds=2)
        large = make_candidate(Path(name), image_size=472, search=search, **plain)
        print(
            f"a greedy action of the QT-Opt sized network at 472x472, 64 samples x 2 rounds: "
            f"{_median_s(large, thoughts=7):.2f} s on one core (goal below 1 s)"
        )
    print(f"load average {os.getloadavg()[0]:.1f}")


def _median_s(candidate: Candidate, thoughts: int = THOUGHTS) -> float:
    episode = make_episode(0, image_size=472, steps=5)
    size = candidate.manifest.input.image_size
    images = np.stack([resize_image(step.frame.decode(), size) for step in episode.steps])
    seen = Observations(images, episode.states())
    took = []
    with closing(shared_host().load_policy(candidate)) as policy:
        for number in range(thoughts):
            row = number % len(seen)
            began = time.perf_counter()
            policy.decide_each(seen.rows(row, row + 1), seed=number)
            took.append(time.perf_counter() - began)
    return statistics.median(took[2:])


if __name__ == "__main__":
    measure_thinking()
