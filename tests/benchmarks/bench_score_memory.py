"""What a score of a large set takes from a full Q cache to its report, in processor time and memory, stage by stage.

Nothing is computed and no episode is read: a process of its own fills the Q cache with made-up values first.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.progress import Report
from opc_ros.scoring.engines import NoEngine
from opc_ros.scoring.q_cache import EpisodeFacts, QCache, QCacheEntry
from opc_ros.scoring.scorer import ScoredSet
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import SnapshotEntry
from opc_ros.workflows.ranking_archive import RankingArchive
from opc_ros.workflows.scoring_run import RankingOptions, score_and_rank
from tests.benchmarks.bench_large_sets import ZOO

SHARE_OF_SUCCESSES = 0.35
_ROWS_AT_ONCE = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=15)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--metric", default="opc")
    parser.add_argument("--once", action="store_true", help="leave out the repeated score")
    parser.add_argument("--folder", type=Path, default=None, help="keep the Q cache here and use it again")
    arguments = parser.parse_args()
    options = RankingOptions(metric=arguments.metric, resamples=arguments.resamples)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as temporary:
        folder = arguments.folder or Path(temporary)
        path = folder / f"q-{arguments.episodes}-{arguments.steps}-{arguments.candidates}.sqlite"
        if not path.exists():
            sizes = (arguments.episodes, arguments.steps, arguments.candidates)
            filling = multiprocessing.get_context("spawn").Process(target=fill, args=(path, *sizes))
            filling.start()
            filling.join()
        candidates = find_candidates(arguments.candidates)
        for name in ("first score",) if arguments.once else ("first score", "repeated score"):
            with stage(f"{name}: {arguments.metric}, {arguments.episodes} x {arguments.steps} x {len(candidates)}"):
                score(path, candidates, arguments.episodes, options, Path(temporary) / "scores")


def score(path: Path, candidates: list[Candidate], episodes: int, options: RankingOptions, scores: Path) -> None:
    with stage("  snapshot"):
        source = SnapshotSource("0" * 64, list(make_entries(episodes)), refuse_reading)
    clock = Clock()

    def look(scored: ScoredSet, ranking: Any) -> tuple[None, tuple[()]]:
        clock.tell("  resampling, hidden part and ranking")
        return None, ()

    with QCache(path) as q_cache:
        run = score_and_rank(
            source,
            candidates,
            q_cache,
            NoEngine(),
            options,
            RankingArchive(scores),
            hidden_secret=b"secret",
            look=look,
            now=lambda: datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
            report_scoring=clock.tell_at("  finding what is known"),
            report_ranking=clock.tell_at("  collecting, scores and first resamples"),
        )
    clock.tell("  report")
    print(f"  ranking {run.ranking.ranking_id[:16]}, Q values {run.ranking.q_digest[:16]}")


def find_candidates(count: int) -> list[Candidate]:
    return [read_candidate(path) for path in sorted(ZOO.iterdir())[:count]]


def make_entries(episodes: int) -> Iterator[SnapshotEntry]:
    is_success = np.random.default_rng(0).random(episodes) < SHARE_OF_SUCCESSES
    for number, good in enumerate(is_success.tolist()):
        yield SnapshotEntry(f"e{number:08d}", "robot", hashlib.sha256(b"%d" % number).hexdigest(), 0, good)


def fill(path: Path, episodes: int, steps: int, candidates: int) -> None:
    """One row for each candidate and episode, as scoring leaves them; Q is a little higher on successes."""
    rng = np.random.default_rng(1)
    entries = list(make_entries(episodes))
    with QCache(path) as q_cache:
        q_cache.append([], (EpisodeFacts(e.episode_id, e.file_sha256, steps, "robot", "p", "", 0) for e in entries))
        for rank, one in enumerate(find_candidates(candidates)):
            for first in range(0, episodes, _ROWS_AT_ONCE):
                some = entries[first : first + _ROWS_AT_ONCE]
                values = rng.standard_normal((len(some), steps), dtype=np.float32)
                values += np.float32(0.1 + 0.02 * rank) * np.array([e.is_success for e in some])[:, None]
                q_cache.append(
                    QCacheEntry(one.id, (e.episode_id, e.file_sha256), row) for e, row in zip(some, values, strict=True)
                )


def refuse_reading(entry: SnapshotEntry) -> Any:
    raise AssertionError(f"{entry.episode_id} is read although its values are known")


class Clock:
    """Tells what a stage took when the next begins."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._begin()

    def tell_at(self, name: str) -> Report:
        """A listener that ends this stage when it first hears something."""

        def listen(done: int, total: int, note: str = "") -> None:
            if name not in self._told:
                self.tell(name)

        return listen

    def tell(self, name: str) -> None:
        self._told.add(name)
        took = time.process_time() - self._begun
        print(f"{name:<64} {took:8.2f} s of processor, at most {largest_memory():5.0f} MB", flush=True)
        self._begin()

    def _begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._begun = time.process_time()


@contextmanager
def stage(name: str) -> Iterator[None]:
    begun = time.process_time()
    yield
    print(
        f"{name:<64} {time.process_time() - begun:8.2f} s of processor, at most {largest_memory():5.0f} MB", flush=True
    )


def largest_memory() -> float:
    """Since the last stage began, in MB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
