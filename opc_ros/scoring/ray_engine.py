"""The Ray engine: chunks become tasks on a cluster; a task whose worker dies runs again elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from opc_ros.errors import ScoreError, SetupError
from opc_ros.policies.candidate import Candidate, candidate_id
from opc_ros.policies.compute import NICENESS, give_way, limit_threads_here
from opc_ros.policies.freed_memory import keep_freed_memory
from opc_ros.policies.manifest import canonical_manifest
from opc_ros.policies.worker.loader import PolicyLoader
from opc_ros.scoring.asking import LoadedCandidate, load_together
from opc_ros.scoring.evaluation import Chunk, ChunkResult, EvaluationPlan, evaluate_chunk
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.source import EpisodeSource

_CHUNKS_PER_CORE = 3  # in flight: enough that no worker has to wait for the next

# The processes that this worker runs candidates in, by whether candidates may run code of their own.
_loaders: dict[bool, PolicyLoader] = {}
# What this worker process has loaded, or failed to load; a worker serves many tasks.
_loaded: dict[str, LoadedCandidate] = {}
_failed: dict[str, Failure] = {}


class RayEngine:
    """Scores on a Ray cluster; the episode source and its files must be reachable from all of its machines."""

    def __init__(self, *, address: str | None = None, allow_code: bool = False) -> None:
        """Without an address, Ray's own rules apply: RAY_ADDRESS, a running cluster, or a new local one."""
        try:
            import ray
        except ImportError as error:
            raise SetupError("engine ray: Ray is missing; install opc-ros[ray] or use the local engine") from error
        self._ray = ray
        self._allow_code = allow_code
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise SetupError(f"engine ray: no cluster at {address or 'this machine'}: {error}") from error

    def run(
        self, source: EpisodeSource, candidates: Sequence[Candidate], chunks: Iterable[Chunk], plan: EvaluationPlan
    ) -> Generator[ChunkResult, None, None]:
        ray = self._ray
        # A candidate that crashes its worker every time must not be retried forever.
        task = ray.remote(num_cpus=1, max_retries=5)(_work)
        # Each candidate's bytes are in the object store under their own digest: a worker fetches what it lacks, once.
        by_id = {candidate.id: ray.put(candidate) for candidate in candidates}
        shared = [ray.put(source), by_id, ray.put(plan)]
        queue = iter(chunks)
        in_flight = max(1, int(ray.cluster_resources().get("CPU", 1))) * _CHUNKS_PER_CORE
        reported: set[str] = set()
        running: list[Any] = [
            task.remote(*shared, chunk, self._allow_code) for chunk in itertools.islice(queue, in_flight)
        ]
        try:
            while running:
                done, running = ray.wait(running, num_returns=1)
                running += [
                    task.remote(*shared, _without(chunk, reported), self._allow_code)
                    for chunk in itertools.islice(queue, len(done))
                ]
                for result in self._get(done):
                    reported |= {failure.id for failure in result.failed_candidates}
                    yield result
        finally:
            for reference in running:
                ray.cancel(reference, force=False)

    def _get(self, done: list[Any]) -> list[ChunkResult]:
        try:
            return list(self._ray.get(done))
        except self._ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:300]
            raise ScoreError(f"engine ray: a task kept failing; what was computed is kept: {reason}") from error


def _work(
    source: EpisodeSource, by_id: dict[str, Any], plan: EvaluationPlan, chunk: Chunk, allow_code: bool
) -> ChunkResult:
    """Runs in a worker process: load what this worker has not loaded yet, then evaluate as the local engine does."""
    limit_threads_here(1)
    keep_freed_memory()
    give_way()
    failures = _load_missing({name: by_id[name] for name in chunk.candidate_ids}, allow_code)
    failures += [_failed[name] for name in chunk.candidate_ids if name in _failed]
    known = {name: _loaded[name] for name in chunk.candidate_ids if name in _loaded}
    result = evaluate_chunk(source, chunk, known, plan)
    return ChunkResult(
        chunk=chunk,
        entries=result.entries,
        facts=result.facts,
        failed_episodes=result.failed_episodes,
        failed_candidates=(*failures, *result.failed_candidates),
        frames=result.frames,
    )


def _load_missing(by_id: dict[str, Any], allow_code: bool) -> list[Failure]:
    """Fetch and load what this worker lacks; return the candidates whose bytes do not match their id."""
    import ray

    missing = [name for name in by_id if name not in _loaded and name not in _failed]
    if not missing:
        return []
    fetched: list[Candidate] = ray.get([by_id[name] for name in missing])
    true = [candidate for candidate in fetched if _digest(candidate) == candidate.id]
    found, failures = load_together(true, _loader_for(allow_code), at_least=1)
    _loaded.update(found)
    _failed.update({failure.id: failure for failure in failures})
    return [
        Failure(candidate.id, "the bytes that arrived are not those of its id")
        for candidate in fetched
        if candidate not in true
    ]


def _digest(candidate: Candidate) -> str:
    canonical = canonical_manifest(candidate.manifest_bytes, where=f"candidate {candidate.name}")
    return candidate_id(canonical, candidate.artifact_bytes)


def _loader_for(allow_code: bool) -> PolicyLoader:
    if allow_code not in _loaders:
        _loaders[allow_code] = PolicyLoader(allow_code=allow_code, niceness=NICENESS)
    return _loaders[allow_code]


def _without(chunk: Chunk, failed: set[str]) -> Chunk:
    return Chunk(chunk.refs, tuple(candidate_id for candidate_id in chunk.candidate_ids if candidate_id not in failed))
