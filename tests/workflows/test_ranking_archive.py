from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from opc_ros.errors import RankingError
from opc_ros.ranking import Ranking, compare_rankings
from opc_ros.workflows.ranking_archive import PAGES_KEPT, RankingArchive
from tests.ranking.making import make_scored, rank

MORNING, NOON = "2026-11-18T08:00:00+00:00", "2026-11-18T12:00:00+00:00"


def make_ranking(seed: int = 0, **changes: object) -> Ranking:
    scored, _ = make_scored(3, episodes=40)
    return dataclasses.replace(rank(scored, resamples=20, seed=seed), scope="registry", **changes)  # type: ignore[arg-type]


def keep(archive: RankingArchive, ranking: Ranking, at: str = MORNING) -> Path:
    return archive.keep(ranking, report="{}", page="<!doctype html>", made_at=at)


def test_every_ranking_is_kept_under_its_id_and_found_by_its_beginning(tmp_path: Path) -> None:
    archive = RankingArchive(tmp_path / "scores")
    first, second = make_ranking(1), make_ranking(2)
    keep(archive, first)
    folder = keep(archive, second, NOON)
    assert folder == tmp_path / "scores" / second.ranking_id[:16]
    assert [summary.ranking_id for summary in archive.summaries()] == [second.ranking_id, first.ranking_id]
    assert archive.read(first.ranking_id[:8]) == archive.read(first.ranking_id) == first
    assert archive.read("newest") == second
    with pytest.raises(RankingError, match="published: no ranking there; `opc score` makes one"):
        archive.read("published")
    with pytest.raises(RankingError, match="ranking 'beef': 0 of 2 rankings"):
        archive.read("beef")


def test_the_gate_reads_what_was_published_and_nothing_made_since(tmp_path: Path) -> None:
    archive = RankingArchive(tmp_path)
    first, second = make_ranking(1), make_ranking(2)
    keep(archive, first)
    archive.publish(first.ranking_id, now=MORNING)
    keep(archive, second, NOON)
    assert Ranking.from_json((tmp_path / "published" / "ranking.json").read_text()) == first
    archive.publish("newest", now=NOON)
    assert Ranking.from_json((tmp_path / "published" / "ranking.json").read_text()) == second
    assert [(entry.ranking_id, entry.published_at) for entry in archive.publications()] == [
        (first.ranking_id, MORNING),
        (second.ranking_id, NOON),
    ]


def test_a_ranking_of_some_candidates_cannot_be_published(tmp_path: Path) -> None:
    archive = RankingArchive(tmp_path)
    some = dataclasses.replace(make_ranking(), scope="selection")
    keep(archive, some)
    with pytest.raises(RankingError, match="ranks 3 selected candidates, expected the whole registry"):
        archive.publish(some.ranking_id, now=NOON)
    assert not archive.published_id()
    assert archive.publications() == []


def test_a_changed_ranking_is_neither_read_nor_published(tmp_path: Path) -> None:
    archive = RankingArchive(tmp_path)
    folder = keep(archive, make_ranking())
    content = json.loads((folder / "ranking.json").read_text())
    content["successes"] += 1
    (folder / "ranking.json").write_text(json.dumps(content))
    with pytest.raises(RankingError, match=r"so it was changed; rank again"):
        archive.publish("newest", now=NOON)


def test_pages_of_old_publications_are_removed_and_rankings_stay(tmp_path: Path) -> None:
    archive = RankingArchive(tmp_path)
    made = [make_ranking(seed) for seed in range(PAGES_KEPT + 2)]
    for ranking in made:
        keep(archive, ranking)
        archive.publish(ranking.ranking_id, now=NOON)
    pages = [(archive.folder_of(ranking.ranking_id) / "report.html").exists() for ranking in made]
    assert pages == [False, False] + [True] * PAGES_KEPT
    assert all(archive.read(ranking.ranking_id) == ranking for ranking in made)


def test_a_comparison_says_who_moved_who_is_new_and_what_the_rankings_rest_on() -> None:
    before = make_ranking()
    first, second, third = before.candidates
    swapped = dataclasses.replace(
        before,
        candidates=(
            dataclasses.replace(first, candidate_id="new", name="newcomer"),
            dataclasses.replace(third, rank=2, rank_interval=(1, 2), score=second.score, score_interval=(-1.0, 1.0)),
            dataclasses.replace(
                second, rank=3, rank_interval=(3, 3), score=third.score, score_interval=third.score_interval
            ),
        ),
        metric="opc",
    )
    found = compare_rankings(before, swapped)
    assert found.differences == ("metric: soft_opc, then opc",)
    places = [(m.name, m.before and m.before.rank, m.after and m.after.rank) for m in found.moves]
    assert places == [("newcomer", None, 1), (third.name, 3, 2), (second.name, 2, 3), (first.name, 1, None)]
    assert found.spearman == pytest.approx(-1.0)
