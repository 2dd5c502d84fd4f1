"""What scoring on a Ray cluster of two nodes costs compared with locally, and what a worker killed halfway costs.

python -m tests.benchmarks.bench_ray [--episodes 2000] [--candidates 13]; both nodes are on this machine, with one core
each, and get candidates and episodes only from Ray's object store.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.episode import Episode
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.scoring.engines import Engine, LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import EpisodeRef, EpisodeSource
from tests.benchmarks.bench_scoring import RepeatingSource
from tests.benchmarks.zoo_scoring import processor_s
from tests.policies.making import make_episode

ZOO = Path("sim_bridge/zoo/candidates")
NODES = 2
STEPS = 5  # of an episode, images of 472x472
ORIGINALS = 20
FIRST = 64  # episodes on which every worker loads its candidates


@dataclass(frozen=True, slots=True)
class Run:
    """One score and its cost."""

    scored: ScoredSet
    wall_s: float
    processor_s: float  # of everything this process has started, including Ray's own processes

    def over(self, other: Run) -> str:
        return (
            f"{self.wall_s / other.wall_s - 1:+.1%} by wall clock, "
            f"{self.processor_s / other.processor_s - 1:+.1%} by processor time"
        )


class DeadlySource(RepeatingSource):
    """Kills the process that first reads one of its episodes, as a machine that dies would."""

    def __init__(self, episodes: Sequence[Episode], count: int, marker: Path) -> None:
        super().__init__(episodes, count)
        self._marker = marker
        self._deadly = self.refs[count // 2].id

    def read(self, ref: EpisodeRef) -> Episode:
        if ref.id == self._deadly and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(ref)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--candidates", type=int, default=13)
    arguments = parser.parse_args()
    count = arguments.episodes
    candidates = [read_candidate(folder) for folder in sorted(ZOO.iterdir())[: arguments.candidates]]
    originals = [make_episode(seed, image_size=472, steps=STEPS) for seed in range(ORIGINALS)]
    few, many = RepeatingSource(originals, FIRST), RepeatingSource(originals, count)
    with tempfile.TemporaryDirectory() as name:
        score = _scorer(candidates, Path(name))
        first = score(few, LocalEngine(workers=NODES))
        local = score(many, LocalEngine(workers=NODES))
        _print(f"local, first {FIRST} episodes", first)
        _print(f"local, {count} episodes", local)
        with _cluster():
            from opc_ros.scoring.ray_engine import RayEngine

            _print(f"Ray, first {FIRST} episodes", score(few, RayEngine()))
            far = score(many, RayEngine())
            _print(f"Ray, {count} episodes", far)
            marker = Path(name) / "killed"
            killed = score(DeadlySource(originals, count, marker), RayEngine())
            print(f"Ray, {count} episodes, a worker killed halfway: {killed.wall_s:.1f} s", flush=True)
            assert marker.exists()
    for found in (far, killed):
        assert found.scored.is_complete
        np.testing.assert_array_equal(found.scored.q, local.scored.q)
    print(
        f"Ray on {NODES} nodes of one core over {NODES} local threads, same bits: {far.over(local)} (goal below +15 %)"
    )
    print(f"a worker killed halfway, over none: {killed.wall_s / far.wall_s - 1:+.1%} by wall clock, same bits")
    print(f"load average {os.getloadavg()[0]:.1f}")


def _scorer(candidates: Sequence[Candidate], folder: Path) -> Callable[[EpisodeSource, Engine], Run]:
    numbers = iter(range(100))

    def score(source: EpisodeSource, engine: Engine) -> Run:
        with QCache(folder / f"q{next(numbers)}.sqlite") as q_cache:
            wall, processor = time.perf_counter(), processor_s()
            last = processor

            def look(done: int, total: int, note: str = "") -> None:
                nonlocal last  # before the candidates' processes, which end with the score, are gone
                last = processor_s()

            scored = score_candidates(source, candidates, q_cache, engine, report=look)
            return Run(scored, time.perf_counter() - wall, last - processor)

    return score


@contextmanager
def _cluster() -> Iterator[None]:
    """A head node without cores and two nodes of one core each, as separate raylets with their own object stores."""
    import ray
    from ray.cluster_utils import Cluster

    memory = 128 << 20
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": memory})
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=1, object_store_memory=memory)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def _print(name: str, run: Run) -> None:
    print(f"{name}: {run.wall_s:.1f} s, {run.processor_s:.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
