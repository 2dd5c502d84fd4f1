"""Reduced precision is accepted if it keeps the order of candidates on the set itself, and refused otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.coarse_q import coarsen
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.policy import LocalThinker, Policy, load_policy
from opc_ros.policies.q_function import ScriptedQFunction
from opc_ros.policies.worker.loader import PolicyLoader
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.order_check import TRIED, Arithmetic, choose_part, refuse_other_order
from opc_ros.scoring.q_cache import COARSE_VERSION, LOGGED, QCache
from opc_ros.scoring.source import EpisodeRef, MemorySource
from tests.policies.making import make_candidate, make_episodes
from tests.policies.states import check_neighbours, make_states

SOURCE = MemorySource(make_episodes(24, image_size=32))


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    kinds = ("target_crop", "whole_image", "tool_crop", "target_crop")
    return [make_candidate(folder / f"{n}", architecture=kind, seed=n, name=f"c{n}") for n, kind in enumerate(kinds)]


def engine_of(weights: Mapping[str, float]) -> LocalEngine:
    """Q is the height of the tool times a weight: the larger it is, the higher a candidate rates the first steps."""

    def load(candidate: Candidate) -> Policy:
        q_function = ScriptedQFunction(lambda images, tools, actions: weights[candidate.name] * tools[:, 2])
        return Policy(candidate, LocalThinker(candidate.manifest, q_function))

    return LocalEngine(workers=1, load=load)


def check(folder: Path, candidates: list[Candidate], exact: LocalEngine, coarse: LocalEngine) -> QCache:
    path = folder / "q.sqlite"
    with QCache(path) as one, QCache(path, scorer_version=COARSE_VERSION) as other:
        refuse_other_order(
            SOURCE,
            candidates,
            Arithmetic(exact, one),
            Arithmetic(coarse, other),
            metric="soft_opc",
            prior=1.0,
            trained_on={},
        )
    return QCache(path, scorer_version=COARSE_VERSION)


def test_other_values_in_the_same_order_are_accepted_and_kept_apart(
    tmp_path: Path, candidates: list[Candidate]
) -> None:
    chosen = candidates[:2]
    kept = check(tmp_path, chosen, engine_of({"c0": 1.0, "c1": 2.0}), engine_of({"c0": 1.1, "c1": 1.9}))
    with kept as coarse, QCache(tmp_path / "q.sqlite") as exact:
        assert coarse.scorer_version != exact.scorer_version
        ref = SOURCE.refs[0]
        q = [each.read(chosen[0].id, LOGGED)[ref.key] for each in (exact, coarse)]
    np.testing.assert_allclose(q[1], 1.1 * q[0], rtol=1e-6)


def test_candidates_that_change_places_are_named_in_one_line(tmp_path: Path, candidates: list[Candidate]) -> None:
    with pytest.raises(ScoreError) as refusal:
        check(tmp_path, candidates[:2], engine_of({"c0": 1.0, "c1": 2.0}), engine_of({"c0": 2.0, "c1": 1.9}))
    assert "\n" not in str(refusal.value)
    assert "on 24 of 24 episodes reduced precision changes the order" in str(refusal.value)
    assert "c0" in str(refusal.value)
    assert "c1" in str(refusal.value)


def test_one_that_only_float32_can_score_is_named(tmp_path: Path, candidates: list[Candidate]) -> None:
    with pytest.raises(ScoreError, match="does not score c1 as float32 does"):
        check(tmp_path, candidates[:2], engine_of({"c0": 1.0, "c1": 2.0}), engine_of({"c0": 1.0, "c1": np.nan}))


def test_the_part_has_some_of_each_outcome_from_all_over_the_set() -> None:
    refs = [EpisodeRef(f"e{n}", f"{n:064x}", n % 3 == 0) for n in range(900)]  # 300 successes, 600 failures
    part = choose_part(refs)
    successes = [ref for ref in part if ref.is_success]
    assert len(successes) == len(part) - len(successes) == TRIED
    assert (successes[0].id, successes[-1].id) == ("e0", "e897")
    assert choose_part(refs[:7]) == tuple(refs[:7])  # a small set is tried as a whole


def test_bfloat16_is_close_but_not_float32_and_looks_at_no_neighbours(candidates: list[Candidate]) -> None:
    seen, actions = make_states()
    for candidate in candidates:
        exact, coarse = load_policy(candidate).q(seen, actions), coarsen(load_q_function(candidate))
        found = coarse.q(seen, actions)
        assert found.dtype == np.float32
        assert (found != exact).any()
        np.testing.assert_allclose(found, exact, rtol=0, atol=0.02)
        check_neighbours(coarse.q)


def test_confined_processes_compute_the_same_bfloat16_alone_and_in_stacks(candidates: list[Candidate]) -> None:
    seen, actions = make_states()
    expected = np.stack([coarsen(load_q_function(candidate)).q(seen, actions) for candidate in candidates])
    with PolicyLoader(is_coarse=True) as loader:
        np.testing.assert_array_equal(loader.load_stack(candidates).q(range(4), seen, actions), expected)
        np.testing.assert_array_equal(loader(candidates[0]).q(seen, actions), expected[0])
