"""Good weights with a worthless action search do not tie with the original: what runs is what is scored."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opc_ros.episode import Episode
from opc_ros.grasp import ActionBounds
from opc_ros.policies.action_search import ActionSearch, ChoiceSearch, CrossEntropySearch
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.greedy import draw_actions
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.policy import LocalThinker, Policy, load_policy
from opc_ros.policies.q_function import Observations, ScriptedQFunction
from opc_ros.policies.worker.host import WorkerHost
from opc_ros.scoring.engines import LocalEngine, NoEngine
from opc_ros.scoring.own_search import (
    DRAWS,
    SEARCH,
    SEED,
    STATES,
    choose_searched,
    compute_shortfall,
    is_standard,
    offer_choices,
)
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_candidate, make_episodes

EPISODES = make_episodes(34)
NOTHING, UP = (0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.08, 0.0, 1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Candidate:
    return make_candidate(tmp_path_factory.mktemp("honest"), architecture="whole_image", image_size=32)


def copy_with(candidate: Candidate, folder: Path, search: ActionSearch, **inputs: object) -> Candidate:
    """The same weights with another search."""
    spec = dataclasses.replace(candidate.manifest.input, **inputs)  # type: ignore[arg-type]
    manifest = dataclasses.replace(candidate.manifest, name=folder.name, input=spec, action_search=search)
    return write_candidate(folder, manifest, candidate.artifact_bytes)


def score(tmp_path: Path, candidates: list[Candidate], scale: float = 1.0, **options: object) -> ScoredSet:
    """With Q the height that an action gains, whatever the state: 0.08 m is best."""

    def think(candidate: Candidate) -> Policy:
        q = ScriptedQFunction(lambda images, tools, actions: 0.5 + scale * actions[:, 2])
        return Policy(candidate, LocalThinker(candidate.manifest, q))

    with QCache(tmp_path / "q.sqlite") as q_cache:
        return score_candidates(MemorySource(EPISODES), candidates, q_cache, LocalEngine(load=think, workers=1))


def shortfalls(scored: ScoredSet) -> list[float]:
    assert not scored.failed_candidates
    assert [look.states for look in scored.searches if not look.is_standard] == [STATES] * len(scored.searches)
    return [look.shortfall for look in scored.searches]


def expected_shortfall(height_m: float) -> float:
    """The shortfall of a policy that never gains more height than this, where 0.08 m is possible."""
    even_m = float(draw_actions(ActionBounds(), DRAWS, SEED)[:, 2].mean())
    assert abs(even_m) < 0.02  # drawn from -0.08 to 0.08
    return min(1.0, (0.08 - height_m) / (0.08 - even_m))


def test_the_shortfall_is_what_is_missed_of_the_gain_over_actions_drawn_evenly(
    tmp_path: Path, honest: Candidate
) -> None:
    still = copy_with(honest, tmp_path / "still", ChoiceSearch(), action_choices=(NOTHING, (*NOTHING[:5], 1, 0, 0)))
    climbing = copy_with(honest, tmp_path / "climbing", ChoiceSearch(), action_choices=(NOTHING, UP))
    assert shortfalls(score(tmp_path, [still, climbing])) == pytest.approx([expected_shortfall(0.0), 0.0], abs=1e-3)


def test_the_fewer_actions_a_search_looks_at_the_more_it_misses(tmp_path: Path, honest: Candidate) -> None:
    """Drawn between -1 and 1, the best of n is (n - 1) / (n + 1) high: 0, 0.6 and 0.97; below 0 all is missed."""
    few = [
        copy_with(honest, tmp_path / f"cem{n}", CrossEntropySearch(samples=n, elites=1, rounds=1)) for n in (1, 4, 64)
    ]
    found = shortfalls(score(tmp_path, few))
    # One sample misses 3/4 on average: all if it is below 0, half if above. 24 states: 0.06 either way.
    assert found == pytest.approx([3 / 4, 2 / 5, 2 / 65], abs=0.15)
    assert found[2] < 0.06


def test_the_standard_search_over_all_actions_needs_no_measurement(tmp_path: Path, honest: Candidate) -> None:
    scored = score(tmp_path, [honest])
    assert scored.searches == (SearchLook(is_standard=True),)


@pytest.mark.parametrize(
    ("search", "inputs"),
    [
        (CrossEntropySearch(samples=63), {}),
        (CrossEntropySearch(elites=64), {}),
        (CrossEntropySearch(), {"action_bounds": ActionBounds(displacement_m=0.079)}),
        (ChoiceSearch(), {"action_choices": (NOTHING, UP)}),
    ],
)
def test_any_departure_from_the_standard_search_is_measured(
    tmp_path: Path, honest: Candidate, search: ActionSearch, inputs: dict[str, object]
) -> None:
    assert is_standard(honest.manifest)
    assert not is_standard(copy_with(honest, tmp_path / "other", search, **inputs).manifest)


def test_actions_that_hardly_move_are_compared_with_those_that_the_task_allows(
    tmp_path: Path, honest: Candidate
) -> None:
    tight = copy_with(honest, tmp_path / "tight", CrossEntropySearch(), action_bounds=ActionBounds(0.001, 0.01))
    scored = score(tmp_path, [tight])
    assert shortfalls(scored) == pytest.approx([expected_shortfall(0.001)], abs=1e-3)
    assert scored.searches[0].reach == pytest.approx(1 / 80)


def test_the_shortfall_does_not_depend_on_the_scale_of_q(tmp_path: Path, honest: Candidate) -> None:
    one = copy_with(honest, tmp_path / "one", CrossEntropySearch(samples=4, elites=1, rounds=1))
    (tmp_path / "large").mkdir()
    large = shortfalls(score(tmp_path / "large", [one], scale=1000.0))
    assert shortfalls(score(tmp_path, [one])) == pytest.approx(large, rel=1e-3)


def test_q_that_does_not_distinguish_actions_misses_nothing(tmp_path: Path, honest: Candidate) -> None:
    one = copy_with(honest, tmp_path / "one", CrossEntropySearch(samples=1, elites=1, rounds=1))
    assert shortfalls(score(tmp_path, [one], scale=0.0)) == [0.0]


@pytest.mark.parametrize(
    ("own", "best", "even", "shortfall"),
    [(0.9, 0.9, 0.5, 0.0), (0.8, 0.9, 0.5, 0.25), (0.5, 0.9, 0.5, 1.0), (0.1, 0.9, 0.5, 1.0), (-1.0, -1.0, -1.0, 0.0)],
)
def test_the_shortfall_of_one_state_by_hand(own: float, best: float, even: float, shortfall: float) -> None:
    assert compute_shortfall(own, best, even) == pytest.approx(shortfall)


def test_a_choice_that_pong_has_and_a_candidate_leaves_out_is_offered_to_it(honest: Candidate) -> None:
    spec = InputSpec(32, 32, action_choices=((0.0,), (1.0,)))
    manifest = dataclasses.replace(honest.manifest, input=spec, task="pong", action_search=ChoiceSearch())
    assert isinstance(manifest, CandidateManifest)
    recorded = np.array([[0.0], [-1.0], [0.0]], dtype=np.float32)
    assert offer_choices(manifest, recorded).tolist() == [[-1.0], [0.0], [1.0]]


def test_a_confined_process_finds_what_this_one_finds(tmp_path: Path, honest: Candidate) -> None:
    (step, *_) = EPISODES[0].steps
    seen = Observations.from_sequence([step.observe()], honest.manifest.input.view)
    actions = draw_actions(ActionBounds(), 2 * DRAWS, SEED)
    with WorkerHost() as host:
        policy = host.load_policy(honest)
        found = policy.q_in_one_state(seen, actions)
        policy.close()
    np.testing.assert_array_equal(found, load_policy(honest).q_in_one_state(seen, actions))
    many = Observations(np.repeat(seen.images, len(actions), axis=0), np.repeat(seen.tools, len(actions), axis=0))
    np.testing.assert_allclose(found, load_policy(honest).q(many, actions), atol=1e-5)


def test_searches_are_looked_at_once_and_kept(tmp_path: Path, honest: Candidate) -> None:
    one = copy_with(honest, tmp_path / "one", CrossEntropySearch(samples=1, elites=1, rounds=1))
    first = score(tmp_path, [one])
    with QCache(tmp_path / "q.sqlite") as q_cache:
        again = score_candidates(MemorySource(EPISODES), [one], q_cache, NoEngine())
    assert again.searches == first.searches


def test_where_only_the_look_at_the_search_is_missing_it_is_made(tmp_path: Path, honest: Candidate) -> None:
    one = copy_with(honest, tmp_path / "one", CrossEntropySearch(samples=1, elites=1, rounds=1))
    first = score(tmp_path, [one])
    with closing(sqlite3.connect(tmp_path / "q.sqlite")) as database, database:
        database.execute("DELETE FROM q_values WHERE quantity = ?", (SEARCH,))
    again = score(tmp_path, [one])
    assert again.pairs_cached == len(EPISODES) - STATES
    assert again.searches == first.searches


def test_a_store_that_grows_keeps_most_of_the_states() -> None:
    def choose(episodes: list[Episode]) -> set[tuple[str, str]]:
        return set(choose_searched(MemorySource(episodes).refs))

    few, more = choose(EPISODES), choose([*EPISODES, *make_episodes(35)[34:]])
    assert len(few) == len(more) == STATES
    assert len(few & more) >= STATES - 1


def test_a_search_that_takes_for_ever_leaves_the_candidate_out(tmp_path: Path, honest: Candidate) -> None:
    greedy = copy_with(honest, tmp_path / "greedy", CrossEntropySearch(samples=50_000, elites=6, rounds=10_000))

    def load(candidate: Candidate) -> Policy:
        return host.load_policy(candidate, deadline_s=2.0)

    with WorkerHost() as host, QCache(tmp_path / "q.sqlite") as q_cache:
        began_s = time.monotonic()
        scored = score_candidates(MemorySource(EPISODES), [greedy, honest], q_cache, LocalEngine(load=load, workers=1))
        assert time.monotonic() - began_s < 60
    assert [candidate.id for candidate in scored.candidates] == [honest.id]
    assert "took longer than 2 s" in scored.failed_candidates[0].reason
