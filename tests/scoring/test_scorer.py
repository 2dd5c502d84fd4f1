"""Scores equal direct evaluation, to the same bits in any order, with any workers and after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.errors import EmptyValidationSet, ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.policy import load_policy, seed_of_recorded
from opc_ros.policies.q_function import Observations
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_episodes
from tests.scoring.counting_source import EPISODES, CountingSource


def test_values_equal_direct_evaluation(q_cache: QCache, candidates: list[Candidate]) -> None:
    scored = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine())
    assert scored.lengths.tolist() == [len(episode.steps) for episode in EPISODES]
    assert scored.success.tolist() == [episode.label.is_success for episode in EPISODES]
    for row, candidate in zip(scored.q, candidates, strict=True):
        q_function = load_q_function(candidate)
        direct = [
            q_function.q(
                Observations.from_sequence([s.observe() for s in episode.steps], candidate.manifest.input.view),
                episode.actions(),
            )
            for episode in EPISODES
        ]
        np.testing.assert_allclose(row, np.concatenate(direct), atol=1e-6)
    assert scored.is_complete


def test_greedy_values_are_those_of_what_the_policy_itself_would_have_done(
    q_cache: QCache, candidates: list[Candidate]
) -> None:
    candidate = candidates[1]
    scored = score_candidates(MemorySource(EPISODES[:3]), [candidate], q_cache, LocalEngine(), has_greedy=True)
    assert scored.q_greedy is not None
    policy = load_policy(candidate)
    best = [
        policy.decide(step.observe(), seed=seed_of_recorded(episode.id), step=index).q
        for episode in EPISODES[:3]
        for index, step in enumerate(episode.steps)
    ]
    np.testing.assert_array_equal(scored.q_greedy[0], np.maximum(np.float32(best), scored.q[0]))


def test_each_episode_is_read_once_for_all_candidates(q_cache: QCache, candidates: list[Candidate]) -> None:
    source = CountingSource(EPISODES)
    scored = score_candidates(source, candidates, q_cache, LocalEngine())
    assert sorted(source.reads) == [episode.id for episode in EPISODES]
    assert scored.frames_decoded == sum(len(episode.steps) for episode in EPISODES)


def test_an_interrupted_run_resumes_and_ends_with_the_same_bits(
    tmp_path: Path, q_cache: QCache, candidates: list[Candidate]
) -> None:
    def stop_half_way(done: int, total: int, note: str = "") -> None:
        if done >= total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine(workers=1), report=stop_half_way)
    resumed = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine())
    assert resumed.pairs_cached >= 18
    with QCache(tmp_path / "other.sqlite") as fresh:
        whole = score_candidates(MemorySource(EPISODES), candidates, fresh, LocalEngine())
    np.testing.assert_array_equal(resumed.q, whole.q)


def test_a_cancelled_run_keeps_what_it_computed(q_cache: QCache, candidates: list[Candidate]) -> None:
    answers = iter([False, True])
    with pytest.raises(ScoreError, match="cancelled; what was computed is kept"):
        score_candidates(
            MemorySource(make_episodes(36)),
            candidates,
            q_cache,
            LocalEngine(workers=1),
            is_cancelled=lambda: next(answers, True),
        )
    assert len(q_cache.read(candidates[0].id)) == 32


def test_workers_and_order_change_no_bit(tmp_path: Path, candidates: list[Candidate]) -> None:
    with QCache(tmp_path / "a.sqlite") as one, QCache(tmp_path / "b.sqlite") as two:
        forward = score_candidates(MemorySource(EPISODES), candidates, one, LocalEngine(workers=1))
        backward = score_candidates(MemorySource(EPISODES[::-1]), candidates[::-1], two, LocalEngine(workers=3))
    order = np.argsort([ref.id for ref in backward.refs])
    parts = np.split(backward.q, np.cumsum(backward.lengths)[:-1], axis=1)
    np.testing.assert_array_equal(np.concatenate([parts[i] for i in order], axis=1)[::-1], forward.q)


def test_progress_shows_what_was_decoded_evaluated_and_cached(q_cache: QCache, candidates: list[Candidate]) -> None:
    score_candidates(MemorySource(EPISODES[:4]), candidates, q_cache, LocalEngine())
    told: list[tuple[int, int, str]] = []

    def report(done: int, total: int, note: str = "") -> None:
        told.append((done, total, note))

    score_candidates(MemorySource(EPISODES[:8]), candidates, q_cache, LocalEngine(), report=report)
    frames = sum(len(episode.steps) for episode in EPISODES[:8])  # the first four share batches with the others
    assert told[0] == (12, 24, "0 frames decoded, 0 evaluated, 12 cached")
    assert told[-1] == (24, 24, f"{frames} frames decoded, 12 evaluated, 12 cached")


def test_nothing_to_score_is_refused(q_cache: QCache, candidates: list[Candidate]) -> None:
    with pytest.raises(EmptyValidationSet, match="has no episode"):
        score_candidates(MemorySource([]), candidates, q_cache, LocalEngine())
    with pytest.raises(ScoreError, match="no candidate is given"):
        score_candidates(MemorySource(EPISODES), [], q_cache, LocalEngine())
    with pytest.raises(ScoreError, match="given twice"):
        score_candidates(MemorySource(EPISODES), [candidates[0], candidates[0]], q_cache, LocalEngine())
