"""Races replayed on candidates whose success rates are known, against testing everything equally."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.deployment.race import RaceRules, is_exploration_turn, judge_race, least_run, race_interval
from opc_ros.errors import DeploymentError
from opc_ros.progress import Report, ignore_progress

COLUMNS = ("name", "score", "success")


@dataclass(frozen=True, slots=True)
class SuccessTable:
    """Candidates with their offline scores and true success rates."""

    names: tuple[str, ...]
    scores: np.ndarray  # (K,)
    rates: np.ndarray  # (K,) in [0, 1]


@dataclass(frozen=True, slots=True)
class Simulation:
    """What came of many simulated races."""

    runs: int
    good_fraction: float  # of runs whose winner is within the tolerance of the best
    best_fraction: float  # of runs whose winner is the best
    mean_regret: float  # success lost by taking the winner instead of the best
    episodes_mean: float
    episodes_most: int
    settled_fraction: float  # of runs that ended with proof, before the budget did
    equal_episodes: int  # that testing everything equally needs for the same good_fraction
    equal_is_enough: bool  # false where even equal_episodes, the search's end, does not reach it
    wins: tuple[int, ...]  # (K,) how often each candidate won
    episodes_by_candidate: tuple[float, ...]  # (K,) mean


def read_success_table(path: Path) -> SuccessTable:
    """A CSV file with the columns name, score and success (a percentage, or a fraction if none is above 1)."""
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


def simulate_races(
    table: SuccessTable,
    rules: RaceRules,
    runs: int,
    rng: np.random.Generator,
    *,
    is_score_shuffled: bool = False,
    report: Report = ignore_progress,
) -> Simulation:
    """Run the race many times at once; every episode is a coin with the candidate's true rate.

    With shuffled scores each run begins from scores that say nothing: what the race is worth without a good metric.
    """
    scores = np.broadcast_to(table.scores, (runs, len(table.names)))
    if is_score_shuffled:
        scores = rng.permuted(scores, axis=1)
    successes, trials, is_settled = _run_races(scores, table.rates, rules, rng, report)
    winner = judge_race(scores, successes, trials, rules).leader
    regret = table.rates.max() - table.rates[winner]
    good = float((regret <= rules.tolerance + 1e-12).mean())
    spent = trials.sum(axis=1)
    equal, is_enough = _equal_testing(table, rules.tolerance, good, runs, rng)
    return Simulation(
        runs=runs,
        good_fraction=good,
        best_fraction=float((regret <= 1e-12).mean()),
        mean_regret=float(regret.mean()),
        episodes_mean=float(spent.mean()),
        episodes_most=int(spent.max()),
        settled_fraction=float(is_settled.mean()),
        equal_episodes=equal,
        equal_is_enough=is_enough,
        wins=tuple(np.bincount(winner, minlength=len(table.names)).tolist()),
        episodes_by_candidate=tuple(trials.mean(axis=0).tolist()),
    )


def _run_races(
    scores: np.ndarray, rates: np.ndarray, rules: RaceRules, rng: np.random.Generator, report: Report
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    runs, rivals = scores.shape
    successes, trials = np.zeros((runs, rivals)), np.zeros((runs, rivals))
    low, high = np.zeros((runs, rivals)), np.ones((runs, rivals))
    is_settled = np.zeros(runs, dtype=bool)
    every_run = np.arange(runs)
    batches = rules.budget_episodes // rules.batch_episodes
    for batch in range(batches):
        standing = judge_race(scores, successes, trials, rules, (low, high))
        is_settled |= standing.is_settled
        if is_settled.all():
            break
        explores = is_exploration_turn(batch, rules)
        pick = least_run(scores, trials) if explores else standing.next
        running, picked = every_run[~is_settled], pick[~is_settled]
        trials[running, picked] += rules.batch_episodes
        successes[running, picked] += rng.binomial(rules.batch_episodes, rates[picked])
        changed = race_interval(successes[running, picked], trials[running, picked], rivals, rules)
        low[running, picked], high[running, picked] = changed
        report(batch + 1, batches)
    return successes, trials, is_settled


def _equal_testing(
    table: SuccessTable, tolerance: float, goal: float, runs: int, rng: np.random.Generator, most_each: int = 20_000
) -> tuple[int, bool]:
    """Fewest episodes at which the best observed rate is as often good enough, the same number for everyone."""

    def good_fraction(each: int) -> float:
        observed = rng.binomial(each, table.rates, size=(runs, len(table.rates)))
        best = (observed + rng.random(observed.shape)).argmax(axis=1)  # equals draw lots
        return float((table.rates.max() - table.rates[best] <= tolerance + 1e-12).mean())

    below, above = 0, 1
    while good_fraction(above) < goal:
        below, above = above, above * 2
        if above > most_each:
            return below * len(table.names), False
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if good_fraction(middle) >= goal else (middle, above)
    return above * len(table.names), True
