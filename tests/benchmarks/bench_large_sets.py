"""Ranking and repeated scores of large sets, in processor time: run with OMP_NUM_THREADS=1 to count one core."""

from __future__ import annotations

import argparse
import hashlib
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.scoring import bootstrap_scores, compute_metric
from opc_ros.scoring.q_cache import LOGGED, EpisodeFacts, QCache, QCacheEntry
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import SnapshotEntry

ZOO = Path(__file__).resolve().parents[2] / "sim_bridge" / "zoo" / "candidates"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--candidates", type=int, default=15)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--streamed", action="store_true", help="read Q from the cache candidate by candidate instead")
    parser.add_argument("--metric", action="append", help="of these alone")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 12, arguments.episodes)
    success = rng.random(arguments.episodes) < 0.35
    metrics = arguments.metric or ["soft_opc_over_spread", "opc"]
    if arguments.streamed:
        bench_streamed(metrics, lengths, success, arguments.candidates, arguments.resamples, rng)
        return
    for metric in metrics:
        bench_resamples(metric, lengths, success, arguments.candidates, arguments.resamples, rng)
    bench_repeat(lengths, success, arguments.candidates, rng)
    print_memory()


def print_memory() -> None:
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", flush=True)


def bench_streamed(
    metrics: list[str],
    lengths: np.ndarray,
    success: np.ndarray,
    candidates: int,
    resamples: int,
    rng: np.random.Generator,
) -> None:
    """The Q cache holds one piece per candidate, and only the candidates being processed are in memory."""
    transitions = int(lengths.sum())
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, QCache(Path(folder) / "q.sqlite") as cache:
        fill_joined(cache, lengths, success, candidates, rng)
        print(f"{candidates} candidates, {success.size} episodes, {transitions} transitions: in the Q cache")
        print_memory()
        q_rows = CachedRows(cache, candidates, transitions)
        for metric in metrics:
            name = f"{metric}: scores of {candidates} candidates, streamed"
            timed(name, lambda: [compute_metric(metric, q, lengths, success) for q in q_rows])  # noqa: B023
            print_memory()
            name = f"{metric}: {resamples} resamples of {candidates} candidates, streamed"
            draws = np.random.default_rng(1)
            timed(
                name,
                lambda: bootstrap_scores(q_rows, lengths, success, metric=metric, resamples=resamples, rng=draws),  # noqa: B023
            )
            print_memory()


def fill_joined(
    cache: QCache, lengths: np.ndarray, success: np.ndarray, candidates: int, rng: np.random.Generator
) -> None:
    """The made-up data is freed on return, so that only scoring's memory is counted."""
    good = np.repeat(success, lengths)
    for rank in range(candidates):
        q = rng.standard_normal(good.size, dtype=np.float32) + np.float32(0.1 + 0.01 * rank) * good
        cache.keep_joined(f"candidate-{rank}", LOGGED, "set", q)


class CachedRows(Sequence[np.ndarray]):
    """Q values of candidates that are read on demand."""

    def __init__(self, cache: QCache, candidates: int, transitions: int) -> None:
        self._cache = cache
        self._candidates = candidates
        self._transitions = transitions

    def __len__(self) -> int:
        return self._candidates

    def __getitem__(self, rank: Any) -> Any:
        if rank >= self._candidates:
            raise IndexError(rank)
        found = self._cache.read_joined(f"candidate-{rank}", LOGGED, "set", self._transitions)
        assert found is not None
        return found


def bench_resamples(
    metric: str, lengths: np.ndarray, success: np.ndarray, candidates: int, resamples: int, rng: np.random.Generator
) -> None:
    good = np.repeat(success, lengths)
    q = [
        rng.standard_normal(good.size, dtype=np.float32) + np.float32(0.1 + 0.05 * rank) * good
        for rank in range(candidates)
    ]
    name = f"{metric}: {resamples} resamples of {candidates} candidates, {good.size} transitions"
    timed(name, lambda: bootstrap_scores(q, lengths, success, metric=metric, resamples=resamples, rng=rng))


def bench_repeat(lengths: np.ndarray, success: np.ndarray, count: int, rng: np.random.Generator) -> None:
    """Everything is in the Q cache: in rows the first time, in one piece per candidate after that."""
    candidates = [read_candidate(path) for path in sorted(ZOO.iterdir())[:count]]
    entries = [
        SnapshotEntry(f"e{number:08d}", "robot", hashlib.sha256(b"%d" % number).hexdigest(), 0, bool(is_success))
        for number, is_success in enumerate(success)
    ]
    with tempfile.TemporaryDirectory() as folder, QCache(Path(folder) / "q.sqlite") as cache:
        fill(cache, candidates, entries, lengths, rng)
        for name in ("score from rows", "repeated score"):
            timed(f"{name} of {len(candidates)} candidates", lambda: collect(cache, candidates, entries))


def fill(
    cache: QCache,
    candidates: list[Candidate],
    entries: list[SnapshotEntry],
    lengths: np.ndarray,
    rng: np.random.Generator,
) -> None:
    steps = lengths.tolist()
    keys = [(entry.episode_id, entry.file_sha256) for entry in entries]
    cache.append([], [EpisodeFacts(*key, n, "robot", "scripted", "", 0) for key, n in zip(keys, steps, strict=True)])
    for one in candidates:
        cache.append(
            QCacheEntry(one.id, key, rng.random(n, dtype=np.float32)) for key, n in zip(keys, steps, strict=True)
        )


def collect(cache: QCache, candidates: list[Candidate], entries: list[SnapshotEntry]) -> ScoredSet:
    def read(entry: SnapshotEntry) -> Any:
        raise AssertionError(f"{entry.episode_id} is read although its values are known")

    return score_candidates(SnapshotSource("0" * 64, entries, read), candidates, cache, NoEngine())


class NoEngine:
    """Nothing is left to compute."""

    def run(self, *_: object) -> Any:
        raise AssertionError("a value is computed again")


def timed(name: str, action: Callable[[], object]) -> None:
    begin = time.process_time()
    action()
    print(f"{name:<80} {time.process_time() - begin:8.2f} s of processor", flush=True)


if __name__ == "__main__":
    main()
