from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opc_ros.episode import Episode
from opc_ros.errors import EmptyValidationSet, EpisodeDamaged, ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.policy import LocalThinker, Policy, load_policy, seed_of_recorded
from opc_ros.policies.q_function import Observations, ScriptedQFunction
from opc_ros.scoring import known_values
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.mixed_batches import COMPANY
from opc_ros.scoring.q_cache import LOGGED, EpisodeKey, QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import EpisodeRef, MemorySource
from tests.policies.making import make_candidate, make_episodes

EPISODES = make_episodes(12)


@pytest.fixture
def q_cache(tmp_path: Path) -> Iterator[QCache]:
    with QCache(tmp_path / "q_cache" / "q.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    kinds = ("whole_image", "tool_crop", "target_crop")
    return [
        make_candidate(folder / kind, architecture=kind, seed=seed, image_size=32 + 8 * seed)
        for seed, kind in enumerate(kinds)
    ]


class CountingSource(MemorySource):
    """Counts reads, and returns a damaged episode where told to."""

    def __init__(self, episodes: list[Episode], damaged: str = "") -> None:
        super().__init__(episodes)
        self.reads: list[str] = []
        self._damaged = damaged

    def read(self, ref: EpisodeRef) -> Episode:
        self.reads.append(ref.id)
        if ref.id == self._damaged:
            raise EpisodeDamaged(f"episode {ref.id}: bytes are not what was committed")
        return super().read(ref)


class FaultyLoader:
    """Loads every candidate, except one that behaves as told once it has been probed."""

    def __init__(self, candidate_id: str, fault: str) -> None:
        self._candidate_id = candidate_id
        self._fault = fault

    def __call__(self, candidate: Candidate) -> Policy:
        if candidate.id != self._candidate_id:
            return load_policy(candidate)
        if self._fault == "load":
            raise RuntimeError("no such operator")
        calls = 0

        def answer(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls > 1 and self._fault == "raise":
                raise RuntimeError("out of\nmemory")
            return np.full(len(actions), np.nan if calls > 1 else 0.5)

        return Policy(candidate, LocalThinker(candidate.manifest, ScriptedQFunction(answer)))


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


def test_a_second_run_reads_nothing_and_gives_the_same(q_cache: QCache, candidates: list[Candidate]) -> None:
    first = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine())
    source = CountingSource(EPISODES)
    second = score_candidates(source, candidates, q_cache, LocalEngine())
    assert source.reads == []
    assert (second.pairs_cached, second.pairs_evaluated) == (36, 0)
    np.testing.assert_array_equal(first.q, second.q)


def test_new_episodes_and_new_candidates_cost_only_what_is_new(q_cache: QCache, candidates: list[Candidate]) -> None:
    score_candidates(MemorySource(EPISODES[:10]), candidates[:2], q_cache, LocalEngine())
    source = CountingSource(EPISODES)
    scored = score_candidates(source, candidates[:2], q_cache, LocalEngine())
    assert set(source.reads) >= {episode.id for episode in EPISODES[10:]}
    assert len(source.reads) == COMPANY  # two that are new and six to mix them with
    assert (scored.pairs_cached, scored.pairs_evaluated) == (20, 4)
    scored = score_candidates(source, candidates, q_cache, LocalEngine())
    assert (scored.pairs_cached, scored.pairs_evaluated) == (24, 12)


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


def test_a_damaged_episode_is_named_and_left_out(q_cache: QCache, candidates: list[Candidate]) -> None:
    scored = score_candidates(CountingSource(EPISODES, damaged="e00004"), candidates, q_cache, LocalEngine())
    assert [(f.id, f.reason) for f in scored.failed_episodes] == [
        ("e00004", "episode e00004: bytes are not what was committed")
    ]
    assert len(scored.refs) == 11
    assert scored.q.shape == (3, scored.lengths.sum())
    assert not scored.is_complete


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("load", "raised RuntimeError: no such operator"),
        ("raise", "raised RuntimeError: out of memory"),
        ("nan", "returned NaN or infinity"),
    ],
)
def test_a_faulty_candidate_is_named_and_left_out(
    q_cache: QCache, candidates: list[Candidate], fault: str, reason: str
) -> None:
    engine = LocalEngine(load=FaultyLoader(candidates[1].id, fault))
    scored = score_candidates(MemorySource(EPISODES), candidates, q_cache, engine)
    assert [failure.id for failure in scored.failed_candidates] == [candidates[1].id]
    assert scored.failed_candidates[0].reason.startswith(reason)
    assert [candidate.id for candidate in scored.candidates] == [candidates[0].id, candidates[2].id]
    assert scored.q.shape == (2, scored.lengths.sum())


class PeekingLoader(FaultyLoader):
    """One candidate whose answer about each state is read from the last row of its batch."""

    def __init__(self, candidate_id: str, share: float) -> None:
        super().__init__(candidate_id, "peek")
        self._share = share

    def __call__(self, candidate: Candidate) -> Policy:
        if candidate.id != self._candidate_id:
            return load_policy(candidate)

        def peek(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
            own, last = images.reshape(len(images), -1).mean(axis=1) / 255, images[-1].mean() / 255
            return (1 - self._share) * own + self._share * last

        return Policy(candidate, LocalThinker(candidate.manifest, ScriptedQFunction(peek)))


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_candidate_that_reads_the_outcome_from_its_batch_is_refused(
    q_cache: QCache, candidates: list[Candidate], share: float
) -> None:
    engine = LocalEngine(load=PeekingLoader(candidates[1].id, share))
    scored = score_candidates(MemorySource(EPISODES), candidates, q_cache, engine)
    assert [failure.id for failure in scored.failed_candidates] == [candidates[1].id]
    assert "it looks at its neighbours in the batch" in scored.failed_candidates[0].reason


@pytest.mark.parametrize("change", ["other bytes", "deleted"])
def test_a_candidate_whose_file_changes_during_scoring_is_named_and_left_out(
    tmp_path: Path, q_cache: QCache, candidates: list[Candidate], change: str
) -> None:
    victim = make_candidate(tmp_path / "victim", image_size=32, seed=9)
    artifact = tmp_path / "victim" / "weights.safetensors"

    def tamper(done: int, total: int, note: str = "") -> None:
        if done and change == "deleted":
            artifact.unlink(missing_ok=True)
        elif done:
            artifact.write_bytes(candidates[0].artifact_bytes)

    scored = score_candidates(MemorySource(EPISODES), [victim, *candidates], q_cache, LocalEngine(), report=tamper)
    assert [failure.id for failure in scored.failed_candidates] == [victim.id]
    assert "files changed while it was scored" in scored.failed_candidates[0].reason
    assert len(scored.candidates) == 3


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


def test_each_row_of_the_q_cache_is_read_once(tmp_path: Path, candidates: list[Candidate]) -> None:
    class CountingCache(QCache):
        def read(self, candidate_id: str, quantity: str = "q") -> dict[tuple[str, str], np.ndarray]:
            asked.append((candidate_id, quantity))
            return super().read(candidate_id, quantity)

    for episodes in (EPISODES[:8], EPISODES):
        asked: list[tuple[str, str]] = []
        with CountingCache(tmp_path / "q.sqlite") as q_cache:
            score_candidates(MemorySource(episodes), candidates, q_cache, LocalEngine())
        assert asked == [(candidate.id, "q") for candidate in candidates]


def test_a_manifest_with_another_layout_is_still_the_same_candidate(
    tmp_path: Path, q_cache: QCache, candidates: list[Candidate]
) -> None:
    moved = make_candidate(tmp_path / "moved", image_size=32, seed=9)

    def comment(done: int, total: int, note: str = "") -> None:
        (tmp_path / "moved" / "candidate.yaml").write_bytes(b"# trained on Monday\n" + moved.manifest_bytes)

    scored = score_candidates(MemorySource(EPISODES), [moved, *candidates], q_cache, LocalEngine(), report=comment)
    assert scored.is_complete


def test_a_candidate_of_another_task_is_refused_in_one_line(q_cache: QCache, candidates: list[Candidate]) -> None:
    episodes = [dataclasses.replace(episode, task="pong") for episode in make_episodes(3)]
    scored = score_candidates(MemorySource(episodes), candidates[:1], q_cache, LocalEngine())
    (failure,) = scored.failed_candidates
    assert "it is made for grasping, but episode e0000" in failure.reason
    assert failure.reason.endswith("is of pong: score it on a store of its own task")


def test_a_repeated_score_of_a_large_set_reads_one_piece_and_gives_the_same_bits(
    q_cache: QCache, candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_values, "LARGE_SET", len(EPISODES))
    whole = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine(workers=1))
    reads: list[str] = []
    read = q_cache.read

    def read_rows(candidate_id: str, quantity: str = LOGGED) -> dict[EpisodeKey, np.ndarray]:
        reads.append(candidate_id)
        return read(candidate_id, quantity)

    monkeypatch.setattr(q_cache, "read", read_rows)
    again = score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine())
    assert reads == []
    np.testing.assert_array_equal(again.q, whole.q)
    fewer = score_candidates(MemorySource(EPISODES[1:]), candidates, q_cache, LocalEngine())
    np.testing.assert_array_equal(fewer.q, whole.q[:, len(EPISODES[0].steps) :])
    assert len(reads) == len(candidates)


def test_values_in_one_piece_are_used_even_if_episodes_cannot_be_read(
    q_cache: QCache, candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_values, "LARGE_SET", 3)
    whole = score_candidates(MemorySource(EPISODES), candidates[:1], q_cache, LocalEngine(workers=1))
    source = CountingSource(EPISODES, damaged=EPISODES[0].id)
    both = score_candidates(source, candidates[:2], q_cache, LocalEngine(workers=1))
    assert [failure.id for failure in both.failed_episodes] == [EPISODES[0].id]
    np.testing.assert_array_equal(both.q[0], whole.q[0, len(EPISODES[0].steps) :])


@pytest.mark.parametrize("key", [b"", b"k" * 32])
def test_a_piece_that_was_changed_is_read_from_its_rows_again(
    tmp_path: Path, candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    monkeypatch.setattr(known_values, "LARGE_SET", 3)
    path = tmp_path / "q.sqlite"
    with QCache(path, seal_key=key) as opened:
        whole = score_candidates(MemorySource(EPISODES), candidates, opened, LocalEngine(workers=1))
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("UPDATE joined SET data = zeroblob(length(data))").rowcount == len(candidates)
    with QCache(path, seal_key=key) as opened:
        again = score_candidates(MemorySource(EPISODES), candidates, opened, LocalEngine(workers=1))
    np.testing.assert_array_equal(again.q, whole.q)
    assert again.pairs_evaluated == 0
