import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opc_ros import errors
from opc_ros.ranking import Ranking, rank_candidates
from opc_ros.scoring import compute_metric
from opc_ros.scoring.search_look import SearchLook

LENGTHS = np.full(200, 5)
SUCCESS = np.arange(200) % 5 < 2
NAMES = {"c0": "noise", "c1": "fair", "c2": "good", "c3": "good twin"}


def make_q() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    is_positive = np.repeat(SUCCESS, LENGTHS)
    q = {f"c{index}": rng.random(1000) + gap * is_positive for index, gap in enumerate((0.0, 0.15, 0.5))}
    return {**q, "c3": q["c2"].copy()}


def rank(seed: int = 1, **changes: Any) -> Ranking:
    arguments: dict[str, Any] = {"metric": "opc", "top_k": 2, "resamples": 300, "snapshot_id": "5" * 64, **changes}
    q = arguments.pop("q", None) or make_q()
    return rank_candidates(q, NAMES, LENGTHS, SUCCESS, seed=seed, **arguments)


@pytest.fixture(scope="module")
def whole_ranking() -> Ranking:
    return rank()


@pytest.mark.parametrize("metric", ["opc", "soft_opc", "soft_opc_by_transition", "soft_opc_over_spread"])
def test_better_separation_ranks_higher_and_ties_follow_the_id(metric: str) -> None:
    ranking = rank(metric=metric)
    assert [candidate.candidate_id for candidate in ranking.candidates] == ["c2", "c3", "c1", "c0"]
    assert [candidate.rank for candidate in ranking.candidates] == [1, 2, 3, 4]
    for candidate in ranking.candidates:
        expected = compute_metric(metric, make_q()[candidate.candidate_id], LENGTHS, SUCCESS)
        assert candidate.score == expected
        assert candidate.name == NAMES[candidate.candidate_id]


def test_the_order_candidates_come_in_is_irrelevant() -> None:
    assert rank(q=dict(reversed(make_q().items()))) == rank()


def test_identical_candidates_share_the_uncertainty_about_their_rank() -> None:
    ranking = rank(top_k=1)
    first, second = ranking.candidates[:2]
    assert first.top_k_probability == second.top_k_probability == 0.5
    assert first.rank_interval == second.rank_interval == (1, 2)
    assert ranking.probability_beats("c2", "c3") == 0.5
    assert ranking.probability_beats("c2", "c0") == 1.0
    assert ranking.probability_beats("c0", "c2") == 0.0


def test_a_ranking_says_what_it_rests_on() -> None:
    ranking = rank(confidence=0.9)
    assert (ranking.metric, ranking.prior, ranking.confidence, ranking.top_k) == ("opc", 1.0, 0.9, 2)
    assert (ranking.episodes, ranking.successes, ranking.resamples) == (200, 80, 300)
    assert ranking.snapshot_id == "5" * 64
    assert ranking.find("c1").name == "fair"
    with pytest.raises(errors.RankingError, match="candidate c9 is not among the 4 ranked"):
        ranking.find("c9")


def test_intervals_hold_the_figures_they_belong_to() -> None:
    for candidate in rank(metric="soft_opc").candidates:
        assert candidate.score_interval[0] < candidate.score < candidate.score_interval[1]
        assert candidate.rank_interval[0] <= candidate.rank <= candidate.rank_interval[1]
        assert 0 <= candidate.top_k_probability <= 1


def test_top_k_of_fewer_candidates_is_all_of_them() -> None:
    ranking = rank(q={"c0": make_q()["c0"]}, top_k=3)
    assert ranking.top_k == 1
    assert ranking.candidates[0].top_k_probability == 1.0


def test_the_same_seed_gives_the_same_ranking_and_id() -> None:
    assert rank() == rank()
    assert rank().ranking_id == rank().ranking_id
    assert rank(seed=2).ranking_id != rank().ranking_id


def test_json_is_canonical_and_comes_back_whole() -> None:
    ranking = rank(searches={name: SearchLook(False, 16, 0.25) for name in NAMES})
    text = ranking.to_json()
    assert Ranking.from_json(text) == ranking
    assert Ranking.from_json(json.dumps(json.loads(text), indent=3)).to_json() == text
    assert json.loads(text)["format"] == "opc-ranking/3"
    assert ranking.ranking_id == hashlib.sha256(text.encode()).hexdigest()
    assert replace(ranking, snapshot_id="6" * 64).ranking_id != ranking.ranking_id


def test_a_ranking_from_before_searches_were_measured_keeps_its_bytes_and_its_id() -> None:
    text = rank().to_json()
    document = json.loads(text)
    assert document["format"] == "opc-ranking/2"
    assert "search" not in document["candidates"][0]
    again = Ranking.from_json(text)
    assert again.to_json() == text
    assert again.candidates[0].search is None


def _drop_prior(content: dict[str, Any]) -> None:
    del content["prior"]


def _swap_first_two(content: dict[str, Any]) -> None:
    content["candidates"][1]["score"] += 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop_prior, "ranking: key 'prior' is missing"),
        (lambda content: content.update(extra=1), "ranking: unknown key 'extra'"),
        (lambda content: content.update(format="opc-ranking/9"), "another format, expected opc-ranking/3"),
        (lambda content: content.update(metric="auc"), "metric 'auc'"),
        (lambda content: content.update(candidates=[]), "no candidate"),
        (lambda content: content["candidates"][0].update(rank=2), "ranks are not 1 to 4"),
        (lambda content: content["candidates"][1].update(candidate_id="c2"), "names a candidate twice"),
        (lambda content: content["candidates"][0].pop("name"), r"candidates\[0\]: key 'name' is missing"),
        (lambda content: content["candidates"][0].update(score=float("nan")), "got NaN, expected a finite number"),
        (
            lambda content: content["candidates"][0].update(score="high"),
            r"candidates\[0\]: score: got 'high', expected a number",
        ),
        (lambda content: content["candidates"][0].update(rank=True), "rank: got True, expected a whole number"),
        (
            lambda content: content["candidates"][0].update(score_interval=[0]),
            "score_interval: list has 1 entries, expected 2",
        ),
        (lambda content: content["candidates"][0].update(score_interval=[0, 0.01]), "lies outside 0.0 to 0.01"),
        (lambda content: content["candidates"][0].update(rank_interval=[2, 3]), "rank 1 lies outside 2 to 3"),
        (lambda content: content["candidates"][0].update(top_k_probability=1.2), "top k is 1.2"),
        (lambda content: content.update(candidates=[7]), r"candidates\[0\]: got 7, expected keys"),
        (lambda content: content.update(beats=["x"]), r"beats\[0\]: got 'x', expected a list"),
        (lambda content: content.update(prior=float("nan")), "got NaN, expected a finite number"),
        (lambda content: content.update(top_k=9), "top_k 9, expected 1 to 4"),
        (lambda content: content.update(episodes="200"), "episodes: got '200', expected a whole number"),
        (lambda content: content.update(beats=[[0.5]]), "beats is not 4 by 4"),
        (lambda content: content.update(successes=0), "0 successes in 200 episodes"),
        (_swap_first_two, "not in order of score"),
    ],
)
def test_a_ranking_that_contradicts_itself_is_refused(
    whole_ranking: Ranking, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    content = json.loads(whole_ranking.to_json())
    change(content)
    with pytest.raises(errors.RankingError, match=message):
        Ranking.from_json(json.dumps(content))


def test_text_that_is_not_json_is_refused() -> None:
    for text in ("", "{", "[]", "7"):
        with pytest.raises(errors.RankingError):
            Ranking.from_json(text)


def test_a_prior_that_cannot_order_is_refused() -> None:
    with pytest.raises(
        errors.PriorOutOfRange, match=r"prior is 0\.4 and 0\.4 of all transitions are positive: OPC is 0"
    ):
        rank(prior=0.4)
    assert rank(prior=0.4, metric="soft_opc").prior == 0.4


def test_what_cannot_be_ranked_is_refused() -> None:
    with pytest.raises(errors.RankingError, match="no candidate to rank"):
        rank_candidates({}, {}, LENGTHS, SUCCESS, seed=0, snapshot_id="s")
    with pytest.raises(errors.RankingError, match="candidate x has no name"):
        rank(q={"x": make_q()["c0"]})
    with pytest.raises(errors.RankingError, match="top_k is 0"):
        rank(top_k=0)
    with pytest.raises(errors.NonFiniteQ):
        rank(q={"c0": np.full(1000, np.nan)})
