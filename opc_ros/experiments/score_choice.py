"""Every score of decision 14 against true success in one world: `python -m opc_ros.experiments.score_choice --help`."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.clustered_figures import ClusteredFigure, measure, training_runs_of
from opc_ros.experiments.greedy_choices import find_greedy, gather_states
from opc_ros.experiments.score_variants import BASE, ActedOn, combine, cross_fit, score_actions, score_by_q
from opc_ros.experiments.tree import TreeSettings, collect_episodes, measure_success, sample_q
from opc_ros.experiments.validation_sets import store_folder
from opc_ros.experiments.zoo_tables import FOLDER, WORLDS
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.ranking import spearman
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import Store, open_store
from sim_bridge.training.evaluation import TrialPlan, read_outcomes

_LEAST_TRIALS = 200
# Runs of the members of the averages, which the tables do not name.
_AVERAGES = {
    "pair": ("third", "mended"),
    "trio": ("third", "mended", "final"),
    "quartet": ("third", "mended", "final", "resown"),
}
Figures = dict[str, ClusteredFigure]


def run_world(
    world: str, data: Path, candidates: Sequence[Candidate], outcomes: Path, *, successes: int, least_trials: int
) -> tuple[ScoredSet, dict[str, np.ndarray], Figures]:
    """Score all candidates with enough trials on everything the world's store holds; some successes also greedily."""
    known = read_outcomes(candidates, TrialPlan(worlds=(world,)), outcomes)
    chosen = [c for c in candidates if (c.id, world) in known and known[c.id, world].episodes >= least_trials]
    if len(chosen) < 4:
        raise ScoreError(f"{world}: {len(chosen)} candidates have {least_trials} trials, expected 4 or more")
    with open_store(store_folder(data, world)) as store, QCache(data / "q.sqlite") as q_cache:
        snapshot = store.take_snapshot()
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        scored = score_candidates(source, chosen, q_cache, LocalEngine(workers=1, load=_load))
        scores = score_by_q(scored.q, scored.lengths, scored.success)
        parts = _second_parts(store, scored, data / "greedy", successes) if successes else {}
    success = np.array([known[c.id, world].share for c in scored.candidates])
    runs = training_runs_of(scored.candidates)
    combined = {f"over spread and {name}": combine(scores[BASE], part) for name, part in parts.items()}
    if parts:
        combined["cross-fitted"] = cross_fit({BASE: scores[BASE], **parts}, success, runs)
    scores = {**scores, **parts, **combined}
    rng = np.random.default_rng(0)
    return scored, scores, {name: measure(values, scores[BASE], success, runs, rng) for name, values in scores.items()}


def _load(candidate: Candidate) -> Policy:
    """In this process: the zoo's candidates are our own."""
    return load_policy(candidate, device="cpu")


def _second_parts(store: Store, scored: ScoredSet, folder: Path, successes: int) -> dict[str, np.ndarray]:
    """What greedy actions say, in the first so many successes of the snapshot."""
    at = np.flatnonzero(scored.success)[:: max(1, int(scored.success.sum()) // successes)][:successes]
    wanted = {scored.refs[index].id for index in at}
    episodes = [store.read_entry(entry) for entry in store.take_snapshot().entries if entry.episode_id in wanted]
    states = gather_states(episodes, scored.candidates[0].manifest.input.image_size)
    greedy = find_greedy(scored.candidates, states, folder)
    rows = np.repeat(np.isin(np.arange(scored.lengths.size), at), scored.lengths)
    acted = ActedOn(states.actions, states.lengths, greedy.actions, greedy.q, scored.q[:, rows])
    return score_actions(acted)


def judge_page(world: str) -> Figures:
    """The three scores that the page's run kept, on its own episodes."""
    with (FOLDER / f"zoo_{world}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["trials"]) >= _LEAST_TRIALS]
    success = np.array([int(row["successes"]) / int(row["trials"]) for row in rows])
    runs = [frozenset(_AVERAGES.get(row["name"], (row["training_run"],))) for row in rows]
    scores = {name: np.array([float(row[name]) for row in rows]) for name in ("opc", "soft_opc", BASE)}
    rng = np.random.default_rng(0)
    return {name: measure(values, scores[BASE], success, runs, rng) for name, values in scores.items()}


def run_tree(seeds: Sequence[int], *, functions: int = 1000) -> dict[str, float]:
    """Mean Spearman on the tree of each score that needs only Q."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        settings = TreeSettings(functions=functions)
        q = sample_q(settings, rng)
        episodes = collect_episodes(settings, rng)
        recorded = q[:, episodes.node - 1, episodes.action]
        for name, scores in score_by_q(recorded, episodes.lengths, episodes.success).items():
            found.setdefault(name, []).append(spearman(scores, measure_success(q, settings)))
    return {name: float(np.mean(values)) for name, values in found.items()}


def to_markdown(figures: Figures) -> str:
    lines = [
        "| score | ξ (95 %, runs resampled) | R² | regret@1 | regret@3 | ξ above 50 % | worse without a run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in figures.items():
        low, high = one.spearman_interval
        above = "-" if one.spearman_above_half is None else f"{one.spearman_above_half:.2f}"
        lines.append(
            f"| {name} | {one.spearman:.2f} ({low:.2f} to {high:.2f}) | {one.r_squared:.2f} | {one.regret_at_1:.1f} | "
            f"{one.regret_at_3:.1f} | {above} | {one.worse_without_a_run:.0%} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", help="whose store in DATA is scored; without it the tree")
    parser.add_argument(
        "--data", type=Path, default=Path("reproduced/grasping"), help="stores, Q values, greedy actions"
    )
    parser.add_argument("--candidates", type=Path, nargs="+", default=[Path("sim_bridge/zoo/candidates")])
    parser.add_argument("--outcomes", type=Path, default=Path("sim_bridge/zoo/outcomes.parquet"))
    parser.add_argument("--successes", type=int, default=40, help="successes in which greedy actions are searched")
    parser.add_argument("--least-trials", type=int, default=_LEAST_TRIALS)
    parser.add_argument("--seeds", type=int, default=20, help="of the tree")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write scores and figures")
    parser.add_argument("--page", action="store_true", help="the scores that opc_ros/experiments/tables keeps")
    arguments = parser.parse_args(argv)
    if arguments.page:
        for world in WORLDS:
            print(f"{world}\n\n{to_markdown(judge_page(world))}\n")
        return 0
    if arguments.world is None:
        for name, value in run_tree(range(arguments.seeds)).items():
            print(f"{name:<24} {value:.3f}")
        return 0
    found = [c for folder in arguments.candidates for c in CandidateRegistry(folder).find_each(())[0]]
    found.sort(key=lambda candidate: candidate.name)
    scored, scores, figures = run_world(
        arguments.world,
        arguments.data,
        found,
        arguments.outcomes,
        successes=arguments.successes,
        least_trials=arguments.least_trials,
    )
    print(
        f"{arguments.world}: {len(scored.candidates)} candidates, {scored.lengths.size} episodes, "
        f"{int(scored.success.sum())} successes, snapshot {scored.snapshot_id[:12]}\n"
    )
    print(to_markdown(figures))
    if arguments.json:
        document = {
            "candidates": [candidate.name for candidate in scored.candidates],
            "scores": {name: values.tolist() for name, values in scores.items()},
            "figures": {name: asdict(figure) for name, figure in figures.items()},
        }
        arguments.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
