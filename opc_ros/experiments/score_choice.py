"""Every score of decision 14 against true success in one world: `python -m opc_ros.experiments.score_choice --help`."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.clustered_figures import ClusteredFigure, measure, to_markdown, training_runs_of
from opc_ros.experiments.greedy_choices import find_greedy, gather_states, spread_evenly
from opc_ros.experiments.own_actions import judge_own
from opc_ros.experiments.score_variants import (
    BASE,
    ActedOn,
    combine,
    cross_fit,
    score_actions,
    score_baselines_each,
    score_by_q,
)
from opc_ros.experiments.tree import TreeSettings, collect_episodes, measure_success, sample_q
from opc_ros.experiments.validation_sets import store_folder
from opc_ros.experiments.zoo_tables import FOLDER, WORLDS
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.ranking import spearman
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.recorded_set import read_recorded
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import EpisodeSource, SnapshotSource
from opc_ros.store import open_store
from sim_bridge.training.evaluation import TrialPlan, read_outcomes

_LEAST_TRIALS = 200
# Training runs of the averages' members, which the tables do not name.
_AVERAGES = {
    "pair": ("third", "mended"),
    "trio": ("third", "mended", "final"),
    "quartet": ("third", "mended", "final", "resown"),
}
Scores = dict[str, np.ndarray]
Figures = dict[str, ClusteredFigure]


@dataclass(frozen=True, slots=True)
class Asked:
    """In how many episodes greedy actions are searched, which is the expensive part."""

    successes: int  # for what is measured on successes only
    episodes: int  # for the critic and the baselines, which need failures too


@dataclass(frozen=True, slots=True)
class WorldScores:
    """All scores of one world's candidates, (C,) each, and how they agree with the truth."""

    world: str
    scored: ScoredSet
    true_success: np.ndarray  # (C,)
    runs: list[frozenset[str]]
    scores: Scores
    figures: Figures
    same_episodes: Figures  # the baselines and three scores, on the asked episodes only
    asked: Asked  # how many there were of each
    asked_at: np.ndarray  # indices of all asked episodes

    def document(self) -> dict[str, object]:
        """The content that `rule_of_choice` and `set_size` read."""
        return {
            "world": self.world,
            "snapshot": self.scored.snapshot_id,
            "episodes": int(self.scored.lengths.size),
            "candidates": [candidate.name for candidate in self.scored.candidates],
            "runs": [sorted(run) for run in self.runs],
            "success": self.true_success.tolist(),
            "scores": {name: values.tolist() for name, values in self.scores.items()},
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
        }


def run_world(
    world: str, data: Path, candidates: Sequence[Candidate], outcomes: Path, asked: Asked, *, least_trials: int
) -> WorldScores:
    """Score all candidates with enough trials on everything in the world's store."""
    with open_store(store_folder(data, world)) as store, QCache(data / "q.sqlite") as q_cache:
        snapshot = store.take_snapshot()
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        scored, true_success = score_known(world, source, candidates, outcomes, q_cache, least_trials=least_trials)
        everywhere = spread_evenly(np.arange(scored.lengths.size), asked.episodes)
        successes = spread_evenly(np.flatnonzero(scored.success), asked.successes)
        parts, baselines = _ask(source, scored, data / "greedy", successes, everywhere)
    runs = training_runs_of(scored.candidates)
    scores = score_by_q(np.asarray(scored.q), scored.lengths, scored.success)
    combined = {f"over spread and {name}": combine(scores[BASE], part) for name, part in parts.items()}
    if parts:
        combined["cross-fitted"] = cross_fit({BASE: scores[BASE], **parts}, true_success, runs)
    scores = {**scores, **parts, **combined}
    rng = np.random.default_rng(0)
    return WorldScores(
        world=world,
        scored=scored,
        true_success=true_success,
        runs=runs,
        scores=scores,
        figures={name: measure(values, scores[BASE], true_success, runs, rng) for name, values in scores.items()},
        same_episodes={
            name: measure(values, baselines[BASE], true_success, runs, rng) for name, values in baselines.items()
        },
        asked=Asked(successes.size, everywhere.size),
        asked_at=np.union1d(successes, everywhere).astype(int),
    )


def load_zoo(folders: Sequence[Path]) -> list[Candidate]:
    """All candidates in these folders, ordered by name, which decides ties."""
    found = [candidate for folder in folders for candidate in CandidateRegistry(folder).find_each(())[0]]
    return sorted(found, key=lambda candidate: candidate.name)


def score_known(
    world: str,
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    outcomes: Path,
    q_cache: QCache,
    *,
    least_trials: int = _LEAST_TRIALS,
) -> tuple[ScoredSet, np.ndarray]:
    """Q of all candidates with enough trials, and their true success (C,)."""
    known = read_outcomes(candidates, TrialPlan(worlds=(world,)), outcomes)
    chosen = [c for c in candidates if (c.id, world) in known and known[c.id, world].episodes >= least_trials]
    if len(chosen) < 4:
        raise ScoreError(f"{world}: {len(chosen)} candidates have {least_trials} trials, expected 4 or more")
    scored = score_candidates(source, chosen, q_cache, LocalEngine(workers=1, load=_load), report=_tell)
    return scored, np.array([known[candidate.id, world].share for candidate in scored.candidates])


def _load(candidate: Candidate) -> Policy:
    """In this process: the zoo's candidates can be trusted."""
    return load_policy(candidate, device="cpu")


def _tell(done: int, total: int, note: str = "") -> None:
    if done % 10 == 0 or done == total:
        print(f"{done} of {total}: {note}", file=sys.stderr, flush=True)


def _ask(
    source: EpisodeSource, scored: ScoredSet, folder: Path, successes: np.ndarray, everywhere: np.ndarray
) -> tuple[Scores, Scores]:
    """Properties of the greedy actions, and scores on the asked episodes alone; none if no episode is asked about."""
    at = np.union1d(successes, everywhere).astype(int)
    if not at.size:
        return {}, {}
    episodes = [source.read(scored.refs[index]) for index in at]
    states = gather_states(episodes, scored.candidates[0].manifest.input.image_size)
    greedy = find_greedy(scored.candidates, states, folder, report=_tell)
    parts: Scores = {}
    if successes.size:
        here, recorded = _rows(states.lengths, np.isin(at, successes)), _rows_of(scored, successes)
        acted = ActedOn(
            states.actions[here],
            scored.lengths[successes],
            greedy.actions[:, here],
            greedy.q[:, here],
            scored.q[:, recorded],
        )
        parts |= score_actions(acted)
    if not everywhere.size:
        return parts, {}
    here = _rows(states.lengths, np.isin(at, everywhere))
    _, rated = judge_own(read_recorded(source, scored.refs), everywhere, greedy.actions[:, here], scored.candidates)
    parts["critic"] = rated.mean(axis=1)
    lengths, success = scored.lengths[at], scored.success[at]
    if not 0 < success.sum() < success.size:
        return parts, {}  # one outcome only: nothing to score
    q = scored.q[:, _rows_of(scored, at)]
    baselines = score_baselines_each(q, greedy.q, lengths, success, scored.candidates)
    by_q = score_by_q(q, lengths, success)
    return parts, {**baselines, **{name: by_q[name] for name in ("opc", "soft_opc", BASE)}}


def _rows(lengths: np.ndarray, is_in: np.ndarray) -> np.ndarray:
    return np.repeat(is_in, lengths)


def _rows_of(scored: ScoredSet, at: np.ndarray) -> np.ndarray:
    return _rows(scored.lengths, np.isin(np.arange(scored.lengths.size), at))


def judge_page(world: str) -> Figures:
    """The three scores kept from the page's run, on its own episodes."""
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


def _write(path: Path | None, document: Mapping[str, object]) -> None:
    if path is not None:
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables of one world, or of the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", help="whose store in DATA is scored; without it the tree")
    parser.add_argument(
        "--data", type=Path, default=Path("reproduced/grasping"), help="stores, Q values, greedy actions"
    )
    parser.add_argument("--candidates", type=Path, nargs="+", default=[Path("sim_bridge/zoo/candidates")])
    parser.add_argument("--outcomes", type=Path, default=Path("sim_bridge/zoo/outcomes.parquet"))
    parser.add_argument("--successes", type=int, default=40, help="successes in which greedy actions are searched")
    parser.add_argument("--episodes", type=int, default=40, help="episodes of both outcomes in which they are, too")
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
        tree = run_tree(range(arguments.seeds))
        for name, value in tree.items():
            print(f"{name:<24} {value:.3f}")
        _write(arguments.json, {"levels": {"tree": tree}})
        return 0
    result = run_world(
        arguments.world,
        arguments.data,
        load_zoo(arguments.candidates),
        arguments.outcomes,
        Asked(arguments.successes, arguments.episodes),
        least_trials=arguments.least_trials,
    )
    scored = result.scored
    print(
        f"{result.world}: {len(scored.candidates)} candidates, {scored.lengths.size} episodes, "
        f"{int(scored.success.sum())} successes; greedy actions in {result.asked.successes} successes and "
        f"{result.asked.episodes} episodes of both outcomes; snapshot {scored.snapshot_id[:12]}\n\n"
        f"{to_markdown(result.figures)}"
    )
    if result.same_episodes:
        print(
            f"\non {result.asked_at.size} episodes, {int(scored.success[result.asked_at].sum())} successes, alone\n\n"
            f"{to_markdown(result.same_episodes)}"
        )
    _write(arguments.json, result.document())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
