"""Compare the race with its alternatives on labs of known success: how often each ends near the best, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from opc_ros.deployment.race import RaceRules
from opc_ros.deployment.race_alternatives import ALTERNATIVES
from opc_ros.deployment.simulation import SuccessTable, simulate_races
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.synthetic_labs import CORRELATIONS, SHAPE_NAMES, SyntheticLabs, degrade_scores, draw_labs

EPISODES_EACH = 71  # budget per candidate: 1,065 for fifteen


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the benchmark."""

    name: str
    runs: int
    good: dict[str, float]  # by method: share of runs that end within the tolerance of the best
    best: str  # the alternative with the largest share
    ahead: float  # the race's share minus that of the best alternative
    ahead_error: float  # standard error of `ahead`; all methods run on the same labs
    regret: dict[str, float]  # by method: mean success lost
    budget: int  # episodes that every method except the best score may spend
    episodes: float  # episodes that the race spends on average
    settled: float  # share of races that end before the budget is spent
    bias: float  # predicted minus true success of the race's winner, on average


def run_benchmark(
    tables: Sequence[SuccessTable],
    rules: RaceRules,
    runs: int,
    seed: int,
    only: str = "",
    report: Report = ignore_progress,
) -> Iterator[Cell]:
    """Run sixteen synthetic cells, then each table with its own scores and with shuffled scores.

    With `only`, run the cells whose name contains it. Every cell has its own random numbers, so that it gives the same
    result whichever others are run.
    """
    for number, (name, draw) in enumerate(_cells(tables, runs)):
        if only in name:
            rng = np.random.default_rng([seed, number])
            yield compare(name, draw(rng), rules, rng, report)


def _cells(
    tables: Sequence[SuccessTable], runs: int
) -> Iterator[tuple[str, Callable[[np.random.Generator], SyntheticLabs]]]:
    for shape in SHAPE_NAMES:
        for correlation in CORRELATIONS:
            yield f"{shape}, correlation {correlation:g}", partial(draw_labs, shape, correlation, runs)
    for table in tables:
        yield table.title, partial(_as_labs, table, runs, False)
        yield f"{table.title}, shuffled", partial(_as_labs, table, runs, True)


def _as_labs(table: SuccessTable, runs: int, is_shuffled: bool, rng: np.random.Generator) -> SyntheticLabs:
    rates = np.broadcast_to(table.rates, (runs, table.rates.size))
    scores = degrade_scores(rates, 0.0, rng) if is_shuffled else np.broadcast_to(table.scores, rates.shape)
    return SyntheticLabs(rates, scores)


def compare(
    name: str, labs: SyntheticLabs, rules: RaceRules, rng: np.random.Generator, report: Report = ignore_progress
) -> Cell:
    """Run all methods on the same labs with the same budget."""
    runs, rivals = labs.rates.shape
    budget = EPISODES_EACH * rivals
    raced = simulate_races(
        labs.scores,
        labs.rates,
        replace(rules, budget_episodes=budget),
        rng,
        report=lambda done, total, note="": report(done, total, name),
    )
    every = np.arange(runs)
    regret = {"race": raced.regret}
    for method, choose in ALTERNATIVES.items():
        winner = choose(labs.scores, labs.rates, budget, rules.batch_episodes, rng)
        regret[method] = labs.rates.max(axis=1) - labs.rates[every, winner]
    is_good = {method: lost <= rules.tolerance + 1e-12 for method, lost in regret.items()}
    best = max(ALTERNATIVES, key=lambda method: is_good[method].mean())
    ahead = is_good["race"].astype(np.float64) - is_good[best]
    return Cell(
        name=name,
        runs=runs,
        good={method: float(found.mean()) for method, found in is_good.items()},
        best=best,
        ahead=float(ahead.mean()),
        ahead_error=float(ahead.std() / np.sqrt(runs)),
        regret={method: float(lost.mean()) for method, lost in regret.items()},
        budget=budget,
        episodes=float(raced.trials.sum(axis=1).mean()),
        settled=float(raced.is_settled.mean()),
        bias=float((raced.estimate - labs.rates[every, raced.winner]).mean()),
    )
