"""A copy of a good candidate with a bad action search ties with it by score and does not pass the gate."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.config import load_config
from opc_ros.deployment.decision import Decision, RealResult, Verdict
from opc_ros.deployment.gate import decide
from opc_ros.deployment.gate_rules import GateRules, SnapshotRules
from opc_ros.deployment.gatekeeper import learn_snapshot
from opc_ros.grasp import ActionBounds
from opc_ros.policies.action_search import ChoiceSearch, CrossEntropySearch
from opc_ros.policies.candidate import read_candidate, write_candidate
from opc_ros.scoring.engines import LocalEngine
from opc_ros.store import open_store
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun
from opc_ros.workflows.store_scoring import StoreScoring, score_store
from sim_bridge.collecting import CollectionPlan, collect

ROOT = Path(__file__).parents[2]
ORIGINAL = "first-00600"
UP = tuple((0.0, 0.0, dz, 0.0, 1.0, 0.0, 0.0, 0.0) for dz in (0.08, 0.07))
COPIES: dict[str, dict[str, object]] = {
    "up": {"action_choices": UP},
    "one-sample": {"action_search": CrossEntropySearch(samples=1, elites=1, rounds=1)},
    "four-samples": {"action_search": CrossEntropySearch(samples=4, elites=1, rounds=1)},
}
WEAK = {"within-millimetres": {"action_bounds": ActionBounds(displacement_m=0.002, rotation_rad=0.05)}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The original, copies of its weights, and episodes of a pseudo-real world."""
    folder = tmp_path_factory.mktemp("lab")
    with open_store(folder / "store", create=True) as store:
        for episode in collect(CollectionPlan("pseudo_real", "better", 96), range(20), workers=1):
            store.append(episode)
    original = read_candidate(ROOT / "sim_bridge" / "zoo" / "candidates" / ORIGINAL)
    write_candidate(folder / "candidates" / ORIGINAL, original.manifest, original.artifact_bytes)
    for name, changes in (COPIES | WEAK).items():
        inputs = {key: changes[key] for key in ("action_choices", "action_bounds") if key in changes}
        manifest = dataclasses.replace(
            original.manifest,
            name=name,
            input=dataclasses.replace(original.manifest.input, **inputs),  # type: ignore[arg-type]
            action_search=ChoiceSearch()
            if "action_choices" in inputs
            else changes.get("action_search", CrossEntropySearch()),  # type: ignore[arg-type]
        )
        write_candidate(folder / "candidates" / name, manifest, original.artifact_bytes)
    return folder


@pytest.fixture(scope="module")
def run(lab: Path) -> ScoringRun:
    request = StoreScoring(lab / "store", lab / "candidates", lab / "scores", options=RankingOptions(resamples=50))
    return score_store(request, LocalEngine(workers=1), now=lambda: datetime.datetime.now(datetime.UTC))


@pytest.fixture(scope="module")
def ask(lab: Path, run: ScoringRun) -> Callable[[str], Decision]:
    """The demo's gate on such a small set, where the original has succeeded in nine of ten real episodes."""
    rules = dataclasses.replace(
        load_config(ROOT / "config" / "gate_demo.yaml", GateRules),
        resamples=50,
        snapshot=SnapshotRules(episodes=20, successes=1, failures=1, age_days=1e5, robots=1),
    )
    with open_store(lab / "store") as store:
        facts = learn_snapshot(store, run.ranking.snapshot_id)
    ids = {each.name: each.candidate_id for each in run.ranking.candidates}
    real = {ids[ORIGINAL]: RealResult(90, 100)}
    return lambda name: decide(ids[name], run.ranking, facts, rules, now_ns=time.time_ns(), real=real)


def test_the_original_passes(ask: Callable[[str], Decision]) -> None:
    decision = ask(ORIGINAL)
    assert decision.verdict is Verdict.PASS, decision.reasons


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_with_a_worthless_search_ties_by_its_score_and_fails_by_its_search(
    run: ScoringRun, ask: Callable[[str], Decision], name: str
) -> None:
    scores = {each.name: each.score for each in run.ranking.candidates}
    assert scores[name] == scores[ORIGINAL]
    decision = ask(name)
    assert [finding.rule for finding in decision.findings if finding.verdict is Verdict.FAIL] == ["search"]
    assert not decision.is_explorable
    assert "what would run is not what was scored" in decision.reasons[0]


@pytest.mark.parametrize("name", WEAK)
def test_a_copy_that_may_hardly_move_goes_to_a_person_whatever_q_says(
    ask: Callable[[str], Decision], name: str
) -> None:
    found = {finding.rule: finding.verdict for finding in ask(name).findings}
    assert found["search"] is Verdict.INCONCLUSIVE
    assert not ask(name).is_explorable
