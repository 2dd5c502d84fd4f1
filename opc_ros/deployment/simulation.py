"""Simulated races between candidates whose success rates are known."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.deployment.race import (
    RaceRules,
    choose_by_results,
    choose_next,
    find_duel,
    goes_by_results,
    is_exploration_turn,
    judge_race,
    least_run,
)
from opc_ros.deployment.race_belief import RaceBelief
from opc_ros.errors import DeploymentError
from opc_ros.progress import Report, ignore_progress

COLUMNS = ("name", "score", "success")
_POINTS = 8  # of the model, for choosing the next batch
_POINTS_TO_LOOK = 16  # for a first look at whether a race may be over
_POINTS_TO_END = 64  # for deciding that it is
_SLACK = 0.02  # error allowed for using fewer points
_DROP_EVERY = 5  # batches; the scheduler checks after each batch whether a candidate drops out
_RIVALS_AT_ONCE = 1500  # candidates, over all races that run side by side


@dataclass(frozen=True, slots=True)
class SuccessTable:
    """Candidates with their offline scores and true success rates."""

    names: tuple[str, ...]
    scores: np.ndarray  # (K,)
    rates: np.ndarray  # (K,) in [0, 1]
    title: str = ""


@dataclass(frozen=True, slots=True)
class RaceOutcomes:
    """Results of many simulated races."""

    winner: np.ndarray  # (R,)
    regret: np.ndarray  # (R,) success lost by taking the winner instead of the best
    estimate: np.ndarray  # (R,) predicted success of the winner
    is_settled: np.ndarray  # (R,) whether it ended before the budget was spent
    trials: np.ndarray  # (R, K)

    def good_fraction(self, tolerance: float) -> float:
        """Share of races whose winner is within the tolerance of the best."""
        return float((self.regret <= tolerance + 1e-12).mean())


def read_success_table(path: Path) -> SuccessTable:
    """Read a CSV file with the columns name, score and success (in percent, or as fractions if none is above 1)."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{path}: cannot be read: {error}") from error
    if not rows or any(column not in rows[0] for column in COLUMNS):
        raise DeploymentError(f"{path}: expected a header with {', '.join(COLUMNS)} and at least one line")
    try:
        scores = np.array([float(row["score"]) for row in rows])
        rates = np.array([float(row["success"]) for row in rows])
    except (TypeError, ValueError) as error:
        raise DeploymentError(f"{path}: score and success must be numbers: {error}") from error
    if rates.max() > 1.0:
        rates = rates / 100.0
    if not np.isfinite(scores).all() or not (np.isfinite(rates).all() and np.all((rates >= 0) & (rates <= 1))):
        raise DeploymentError(f"{path}: expected finite scores, and success from 0 to 1 or to 100 %")
    return SuccessTable(tuple(row["name"] for row in rows), scores, rates)


def simulate_table(
    table: SuccessTable,
    rules: RaceRules,
    runs: int,
    rng: np.random.Generator,
    *,
    is_score_shuffled: bool = False,
    report: Report = ignore_progress,
) -> RaceOutcomes:
    """Run the race on one table many times; with shuffled scores, each run starts from scores that say nothing."""
    scores = np.broadcast_to(table.scores, (runs, len(table.names)))
    if is_score_shuffled:
        scores = rng.permuted(scores, axis=1)
    return simulate_races(scores, np.broadcast_to(table.rates, scores.shape), rules, rng, report=report)


def simulate_races(
    scores: np.ndarray,
    rates: np.ndarray,
    rules: RaceRules,
    rng: np.random.Generator,
    *,
    report: Report = ignore_progress,
) -> RaceOutcomes:
    """Run races (R, K); every episode succeeds at random with the candidate's true rate."""
    parts = []
    at_once = max(1, _RIVALS_AT_ONCE // scores.shape[1])
    for first in range(0, len(scores), at_once):
        rows = slice(first, first + at_once)
        parts.append(_run_races(scores[rows], rates[rows], rules, rng))
        report(min(first + at_once, len(scores)), len(scores), "races")
    return RaceOutcomes(
        np.concatenate([part.winner for part in parts]),
        np.concatenate([part.regret for part in parts]),
        np.concatenate([part.estimate for part in parts]),
        np.concatenate([part.is_settled for part in parts]),
        np.concatenate([part.trials for part in parts]),
    )


def _run_races(scores: np.ndarray, rates: np.ndarray, rules: RaceRules, rng: np.random.Generator) -> RaceOutcomes:
    belief = RaceBelief(scores)
    successes, trials = np.zeros(scores.shape), np.zeros(scores.shape)
    is_settled, is_in_race = np.zeros(len(scores), dtype=bool), np.ones(scores.shape, dtype=bool)
    for batch in range(rules.budget_episodes // rules.batch_episodes):
        running = np.flatnonzero(~is_settled)
        density = belief.densities(running, _POINTS, rng, is_even=True)
        if batch % _DROP_EVERY == _DROP_EVERY - 1:
            is_in_race[running] &= judge_race(_even(density), density, rules).is_in_race
        duel = find_duel(_even(density), density, rules.tolerance, is_in_race[running])
        if batch:
            # A cheap bound that tells for most races that they cannot be over yet.
            near = duel.chance <= 1.0 - rules.confidence_at(belief.correlation(running)) + _SLACK
            is_settled[running[near]] = _settles(belief, running[near], rules, rng)
        goes_on = ~is_settled[running]
        running, duel = running[goes_on], duel.of(goes_on)
        if not running.size:
            break
        if is_exploration_turn(batch, rules):
            ran = np.where(is_in_race[running], trials[running], np.inf)
            picked = least_run(scores[running], ran)
        elif goes_by_results(batch):
            picked = choose_by_results(successes[running], trials[running], rng, is_in_race[running])
        else:
            picked = choose_next(duel, rng)
        trials[running, picked] += rules.batch_episodes
        successes[running, picked] += rng.binomial(rules.batch_episodes, rates[running, picked])
        belief.learn(running, picked, successes[running, picked], trials[running, picked])
    everyone = np.arange(len(scores))
    density = belief.densities(everyone, _POINTS_TO_END, rng, is_even=True)
    standing = judge_race(_even(density), density, rules)
    regret = rates.max(axis=1) - rates[everyone, standing.leader]
    return RaceOutcomes(standing.leader, regret, standing.mean[everyone, standing.leader], is_settled, trials)


def _settles(belief: RaceBelief, running: np.ndarray, rules: RaceRules, rng: np.random.Generator) -> np.ndarray:
    """Which races are over, (r,): a few points of the model find candidates for that, and more points decide."""
    is_settled = np.zeros(len(running), dtype=bool)
    correlation = belief.correlation(running)
    if running.size:
        density = belief.densities(running, _POINTS_TO_LOOK, rng, is_even=True)
        lead = judge_race(_even(density), density, rules).lead
        is_settled = lead >= rules.confidence_at(correlation) - _SLACK
    if is_settled.any():
        closer = belief.densities(running[is_settled], _POINTS_TO_END, rng, is_even=True)
        is_settled[is_settled] = judge_race(_even(closer), closer, rules, correlation[is_settled]).is_settled
    return is_settled


def _even(density: np.ndarray) -> np.ndarray:
    """Equal weights, for points that were drawn by weight."""
    return np.full(density.shape[:2], 1.0 / density.shape[1], dtype=density.dtype)
