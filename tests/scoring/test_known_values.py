"""What was computed before is neither read nor computed again, unless somebody changed it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opc_ros.policies.candidate import Candidate
from opc_ros.scoring import known_values
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.mixed_batches import COMPANY
from opc_ros.scoring.q_cache import LOGGED, EpisodeKey, QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.scoring.counting_source import EPISODES, CountingSource


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
