"""Engines that process chunks: on this machine's cores, or elsewhere behind the same protocol."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.compute import NICENESS, available_cores, give_way, limit_threads_here
from opc_ros.policies.freed_memory import keep_freed_memory
from opc_ros.policies.worker.loader import PolicyLoader
from opc_ros.scoring.asking import Loaded, LoadedCandidate, LoadPolicy, load_candidates, load_together
from opc_ros.scoring.evaluation import Chunk, ChunkResult, EvaluationPlan, evaluate_chunk
from opc_ros.scoring.source import EpisodeSource


class Engine(Protocol):
    """Evaluates chunks in any order; it may skip a candidate that has failed once."""

    def run(
        self, source: EpisodeSource, candidates: Sequence[Candidate], chunks: Iterable[Chunk], plan: EvaluationPlan
    ) -> Generator[ChunkResult, None, None]: ...


class NoEngine:
    """For callers who only want what the Q cache already has."""

    def run(
        self, source: EpisodeSource, candidates: Sequence[Candidate], chunks: Iterable[Chunk], plan: EvaluationPlan
    ) -> Generator[ChunkResult, None, None]:
        names = ", ".join(candidate.name for candidate in candidates[:3]) + (", ..." if len(candidates) > 3 else "")
        raise ScoreError(f"the Q cache has no values of {len(candidates)} candidates ({names}): score them first")


class LocalEngine:
    """Threads of this process; each reads and decodes a chunk and queries every candidate about it.

    Candidates run in processes of their own, so one thread decodes while another waits for a candidate. Only the chunks
    being processed are in memory, however many there are.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        allow_code: bool = False,
        is_coarse: bool = False,
        load: LoadPolicy | None = None,
    ) -> None:
        """`is_coarse`: networks of named architectures in bfloat16; see order_check.py."""
        self._is_coarse = is_coarse
        self._workers = workers or available_cores()
        self._allow_code = allow_code
        self._load = load

    def run(
        self, source: EpisodeSource, candidates: Sequence[Candidate], chunks: Iterable[Chunk], plan: EvaluationPlan
    ) -> Generator[ChunkResult, None, None]:
        with PolicyLoader(allow_code=self._allow_code, niceness=NICENESS, is_coarse=self._is_coarse) as loader:
            if self._load is not None:
                loaded = load_candidates(candidates, self._load)
            else:
                loaded = load_together(candidates, loader, at_least=self._workers)
            yield from self._run(source, chunks, plan, loaded)

    def _run(
        self,
        source: EpisodeSource,
        chunks: Iterable[Chunk],
        plan: EvaluationPlan,
        found: Loaded,
    ) -> Generator[ChunkResult, None, None]:
        loaded, failures = found
        if failures:
            yield ChunkResult(Chunk((), ()), failed_candidates=failures)
        survivors = _Survivors(loaded)
        keep_freed_memory()

        def work(chunk: Chunk) -> ChunkResult:
            result = evaluate_chunk(source, chunk, survivors.all(), plan)
            survivors.drop(result)
            return result

        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="opc-score", initializer=_become_worker)
        queue = iter(chunks)
        try:
            running: set[Future[ChunkResult]] = {
                pool.submit(work, chunk) for chunk in itertools.islice(queue, self._workers + 1)
            }
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(work, chunk) for chunk in itertools.islice(queue, len(done))}
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _become_worker() -> None:
    limit_threads_here(1)
    give_way()


class _Survivors:
    """Loaded candidates that have not failed yet, shared between threads."""

    def __init__(self, loaded: dict[str, LoadedCandidate]) -> None:
        self._loaded = loaded
        self._lock = threading.Lock()

    def all(self) -> dict[str, LoadedCandidate]:
        with self._lock:
            return dict(self._loaded)

    def drop(self, result: ChunkResult) -> None:
        with self._lock:
            for failure in result.failed_candidates:
                self._loaded.pop(failure.id, None)
