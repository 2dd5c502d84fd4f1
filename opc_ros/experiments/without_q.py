"""Candidates whose Q is hidden, scores against true success: `python -m opc_ros.experiments.without_q --help`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from opc_ros.errors import ScoreError
from opc_ros.experiments.clustered_figures import ClusteredFigure, measure, to_markdown, training_runs_of
from opc_ros.experiments.greedy_choices import find_greedy, gather_states, spread_evenly
from opc_ros.experiments.own_actions import judge_own
from opc_ros.experiments.score_variants import standardise
from opc_ros.experiments.validation_sets import store_folder
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.scoring import compute_metric
from opc_ros.scoring.agreement import spread_by_step
from opc_ros.scoring.recorded_set import read_recorded
from opc_ros.scoring.source import SnapshotSource
from opc_ros.store import open_store
from sim_bridge.training.evaluation import TrialPlan, read_outcomes

_LEAST_TRIALS = 200
VARIANTS = (
    "agreement",
    "agreement_with_successes",
    "agreement_at_decisions",
    "critic",
    "critic_in_failures",
    "critic_at_decisions",
    "critic_and_agreement",
)
# Added after the figures of the variants were known, and listed beside them: decision 17 says why.
MENDS = ("agreement_on_flags", "peer_agreement", "peers_and_flags")
_FLAGS = slice(5, 8)  # opening, closing, terminating


def score_variants(
    agreed: np.ndarray, rated: np.ndarray, decisive: np.ndarray, lengths: np.ndarray, success: np.ndarray
) -> dict[str, np.ndarray]:
    """Every score of decision 17, (C,) each.

    Args:
        agreed: agreement of each candidate's own actions with the recorded ones, (C, N).
        rated: the critic's value of them minus its value of the recorded ones, (C, N).
        decisive: whether the own or the recorded action closes or terminates, (C, N) bool.
        lengths: steps of each episode, (E,).
        success: whether each succeeded, (E,).
    """
    over_spread = [compute_metric("soft_opc_over_spread", row, lengths, success) for row in agreed]
    at_decisions = [
        compute_metric("soft_opc_over_spread", np.where(at, row, row[at].mean() if at.any() else 0.0), lengths, success)
        for row, at in zip(agreed, decisive, strict=True)
    ]
    episodes = np.stack([np.add.reduceat(row, np.cumsum(lengths) - lengths) / lengths for row in rated])
    steps = np.repeat(success, lengths)
    scores = {
        "agreement": np.array(over_spread),
        "agreement_with_successes": agreed[:, steps].mean(axis=1),
        "agreement_at_decisions": np.array(at_decisions),
        "critic": episodes.mean(axis=1),
        "critic_in_failures": episodes[:, ~success].mean(axis=1),
        "critic_at_decisions": np.array(
            [row[at].mean() if at.any() else 0.0 for row, at in zip(rated, decisive, strict=True)]
        ),
    }
    scores["critic_and_agreement"] = (standardise(scores["critic"]) + standardise(scores["agreement"])) / 2
    return scores


def score_mends(
    recorded: np.ndarray, own: np.ndarray, spread: np.ndarray, lengths: np.ndarray, success: np.ndarray
) -> dict[str, np.ndarray]:
    """The scores that were tried after the variants had failed, (C,) each.

    Args:
        recorded: actions, (N, 8).
        own: each candidate's in the same states, (C, N, 8).
        spread: how much displacements vary among recorded actions that are equally far from the end, (N, 3).
        lengths: steps of each episode, (E,).
        success: whether each succeeded, (E,).
    """
    flags = own[:, :, _FLAGS] > 0.5
    differing = -(flags != (recorded[:, _FLAGS] > 0.5)).sum(axis=2).astype(np.float64)
    moved = own[:, :, :3]
    from_peers = np.linalg.norm((moved - moved.mean(axis=0)) / spread, axis=2)
    from_peers += np.abs(flags - flags.mean(axis=0)).sum(axis=2)
    scores = {
        "agreement_on_flags": np.array(
            [compute_metric("soft_opc_over_spread", row, lengths, success) for row in differing]
        ),
        "peer_agreement": -from_peers.mean(axis=1),
    }
    scores["peers_and_flags"] = (standardise(scores["peer_agreement"]) + standardise(scores["agreement_on_flags"])) / 2
    return scores


def run_world(
    world: str, data: Path, candidates: Sequence[Candidate], outcomes: Path, *, episodes: int, successes: int = 0
) -> tuple[str, dict[str, np.ndarray], dict[str, ClusteredFigure], list[str]]:
    """Judge own actions in evenly chosen episodes and successes of the store; the critic is fitted on all episodes."""
    known = read_outcomes(candidates, TrialPlan(worlds=(world,)), outcomes)
    chosen = [c for c in candidates if (c.id, world) in known and known[c.id, world].episodes >= _LEAST_TRIALS]
    if len(chosen) < 4:
        raise ScoreError(f"{world}: {len(chosen)} candidates have {_LEAST_TRIALS} trials, expected 4 or more")
    with open_store(store_folder(data, world)) as store:
        snapshot = store.take_snapshot()
        source = SnapshotSource(snapshot.id, snapshot.entries, store.read_entry)
        refs = source.refs
        everything = read_recorded(source, refs)
        asked = np.union1d(
            spread_evenly(np.arange(len(refs)), episodes), spread_evenly(np.flatnonzero(everything.success), successes)
        ).astype(int)
        states = gather_states([source.read(refs[index]) for index in asked], chosen[0].manifest.input.image_size)
    own = find_greedy(chosen, states, data / "greedy", report=_tell).actions
    agreed, rated = judge_own(everything, asked, own, chosen)
    # The last two flags close the gripper and terminate.
    decisive = np.asarray((own[:, :, -2:] > 0.5).any(axis=2) | (states.actions[:, -2:] > 0.5).any(axis=1))
    success = everything.success[asked]
    scores = score_variants(agreed, rated, decisive, states.lengths, success)
    steps_to_end = everything.steps_to_end[np.repeat(np.isin(np.arange(len(refs)), asked), everything.lengths)]
    spread = spread_by_step(states.actions[:, :3], steps_to_end)
    scores |= score_mends(states.actions, own, spread, states.lengths, success)
    true = np.array([known[c.id, world].share for c in chosen])
    rng, runs = np.random.default_rng(0), training_runs_of(chosen)
    figures = {name: measure(scores[name], scores[VARIANTS[0]], true, runs, rng) for name in scores}
    head = (
        f"{world}: {len(chosen)} candidates, their Q hidden; {len(refs)} episodes, "
        f"{int(everything.success.sum())} successes; own actions in {len(asked)} of them, "
        f"{int(success.sum())} successes, {len(states.actions)} states; snapshot {snapshot.id[:12]}"
    )
    return head, scores, figures, [candidate.name for candidate in chosen]


def _tell(done: int, total: int, note: str = "") -> None:
    print(f"{done} of {total}: {note}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", required=True, help="whose store in DATA is judged on")
    parser.add_argument("--data", type=Path, default=Path("reproduced/grasping"), help="stores and own actions")
    parser.add_argument("--candidates", type=Path, default=Path("sim_bridge/zoo/candidates"))
    parser.add_argument("--outcomes", type=Path, default=Path("sim_bridge/zoo/outcomes.parquet"))
    parser.add_argument("--episodes", type=int, default=1000, help="in which own actions are searched, at most")
    parser.add_argument(
        "--successes", type=int, default=0, help="beside these, so many of the successes, as score_choice"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write scores and figures")
    arguments = parser.parse_args(argv)
    found = sorted(CandidateRegistry(arguments.candidates).find_each(())[0], key=lambda candidate: candidate.name)
    head, scores, figures, names = run_world(
        arguments.world,
        arguments.data,
        found,
        arguments.outcomes,
        episodes=arguments.episodes,
        successes=arguments.successes,
    )
    print(f"{head}\n\n{to_markdown(figures)}")
    if arguments.json:
        document = {
            "candidates": names,
            "scores": {name: values.tolist() for name, values in scores.items()},
            "figures": {name: asdict(figure) for name, figure in figures.items()},
        }
        arguments.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
