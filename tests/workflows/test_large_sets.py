"""A set too large for memory is ranked and reported to the last bit as one that is held."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opc_ros.policies.candidate import Candidate
from opc_ros.scoring import known_values, value_rows
from opc_ros.scoring.engines import NoEngine
from opc_ros.scoring.q_cache import GREEDY, LOGGED, EpisodeFacts, QCache, QCacheEntry
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import SnapshotEntry
from opc_ros.workflows.ranking_archive import RankingArchive
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun, score_and_rank
from tests.policies.making import make_candidate

EPISODES = 200
OWN = 30  # played by the first candidate


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    return [make_candidate(folder / str(seed), seed=seed) for seed in range(3)]


def make_entries() -> list[SnapshotEntry]:
    success = np.random.default_rng(0).random(EPISODES) < 0.4
    return [
        SnapshotEntry(f"e{n:04d}", f"arm{n % 2}", hashlib.sha256(b"%d" % n).hexdigest(), 0, bool(good))
        for n, good in enumerate(success)
    ]


def fill(q_cache: QCache, candidates: list[Candidate]) -> None:
    """Q with ties, in another order than the snapshot's."""
    rng = np.random.default_rng(1)
    entries = make_entries()
    lengths = rng.integers(1, 9, EPISODES).tolist()
    for place in rng.permutation(EPISODES).tolist():
        one, steps = entries[place], lengths[place]
        key = (one.episode_id, one.file_sha256)
        player = candidates[0].id if place < OWN else "scripted"
        facts = EpisodeFacts(*key, steps, one.robot, player, "cups", place)
        values = [np.round(rng.standard_normal(steps) + 0.5 * one.is_success, 2) for _ in candidates]
        q_cache.append(
            [
                QCacheEntry(each.id, key, q + extra, quantity)
                for each, q in zip(candidates, values, strict=True)
                for quantity, extra in ((LOGGED, 0.0), (GREEDY, 0.5))
            ],
            [facts],
        )


def score(q_cache: QCache, candidates: list[Candidate], metric: str) -> ScoringRun:
    def refuse(entry: SnapshotEntry) -> Any:
        raise AssertionError(f"{entry.episode_id} is read although its values are known")

    return score_and_rank(
        SnapshotSource("5e" * 32, make_entries(), refuse),
        candidates,
        q_cache,
        NoEngine(),
        RankingOptions(metric=metric, resamples=50),
        RankingArchive(q_cache.path.parent / "scores"),
        has_greedy=True,
        hidden_secret=b"secret",
        now=lambda: datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
    )


@pytest.mark.parametrize("metric", ["opc", "soft_opc_over_spread", "weighted_auc"])
def test_a_set_that_is_not_held_gets_the_same_ranking_and_report(
    tmp_path: Path, candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    with QCache(tmp_path / "q.sqlite") as q_cache:
        fill(q_cache, candidates)
        held = score(q_cache, candidates, metric)
        assert isinstance(held.scored.q, np.ndarray)
        documents = {held.document.read_text(), held.ranking_file.read_text()}
        monkeypatch.setattr(known_values, "LARGE_SET", EPISODES)
        monkeypatch.setattr(value_rows, "HELD", 0)
        for _ in ("from rows", "from one piece"):
            on_disk = score(q_cache, candidates, metric)
            assert isinstance(on_disk.scored.q, value_rows.RowsOnDisk)
            assert on_disk.ranking == held.ranking
            assert {on_disk.document.read_text(), on_disk.ranking_file.read_text()} == documents
    assert sorted(each.own_episodes for each in held.ranking.candidates) == [0, 0, OWN]
    np.testing.assert_array_equal(list(on_disk.scored.q), held.scored.q)  # also when the Q cache is closed
