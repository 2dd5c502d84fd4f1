"""`opc deploy simulate`: replays who would get robot time, for known success rates."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opc_ros.deployment.race import RaceRules
    from opc_ros.deployment.simulation import SuccessTable

EXAMPLES = """examples:
  opc deploy simulate
  opc deploy simulate --table mine.csv --runs 500 --seed 7
  opc deploy simulate --shuffle-scores
  opc deploy simulate --benchmark --runs 1000

A table has the columns name, score, success. Without one, the 15 real-world models of Irpan et al. (2019) are used."""


PONG_CORRELATION = 0.73  # rank correlation of OPC with points won, without stickiness


def add_simulate(actions: Any) -> None:
    simulate = actions.add_parser(
        "simulate",
        help="simulate who gets robot time, from known success rates",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("--table", type=Path, help="CSV file; default: the paper's 15 models")
    simulate.add_argument(
        "--benchmark", action="store_true", help="compare with the usual alternatives, on every table available"
    )
    simulate.add_argument(
        "--only", default="", metavar="TEXT", help="only lines of the benchmark whose name contains this"
    )
    simulate.add_argument("--scheduler", type=Path, default=Path("config/scheduler.yaml"), help="rules with the race's")
    simulate.add_argument("--runs", type=int, default=2000)
    simulate.add_argument("--seed", type=int, default=0)
    simulate.add_argument("--shuffle-scores", action="store_true", help="shuffle the scores, so that they say nothing")
    simulate.add_argument("--json", action="store_true", help="for machines")
    simulate.set_defaults(run=run_simulate)


def published_table() -> SuccessTable:
    """The 15 real-world models of the paper."""
    import numpy as np

    from opc_ros.deployment.simulation import SuccessTable
    from opc_ros.experiments.published import MODELS

    return SuccessTable(
        names=tuple(model.name for model in MODELS),
        scores=np.array([model.soft_opc for model in MODELS]),
        rates=np.array([model.success_percent for model in MODELS]) / 100.0,
        title="the paper's 15",
    )


def pong_table() -> SuccessTable:
    """Pong's 108 candidates; the page gives only their success, so scores that predict as well as OPC's are drawn."""
    import numpy as np

    from opc_ros.deployment.simulation import SuccessTable
    from opc_ros.experiments.zoo_tables import read_pong_success
    from opc_ros.ranking.synthetic_labs import degrade_scores

    names, rates = read_pong_success()
    scores = degrade_scores(rates[None], PONG_CORRELATION, np.random.default_rng(0))[0]
    return SuccessTable(names, scores, rates, "Pong's 108")


def known_tables() -> list[SuccessTable]:
    """The paper's models, the zoo in each of its worlds, and Pong's."""
    from opc_ros.deployment.simulation import SuccessTable
    from opc_ros.experiments.zoo_tables import WORLDS, read_zoo_table

    zoo = [read_zoo_table(world) for world in WORLDS]
    return [
        published_table(),
        *(SuccessTable(each.names, each.scores, each.successes / each.trials, f"zoo, {each.world}") for each in zoo),
        pong_table(),
    ]


def run_simulate(arguments: argparse.Namespace) -> int:
    import numpy as np

    from opc_ros.bringup.lab import load_scheduler_rules
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.deployment.simulation import read_success_table, simulate_table
    from opc_ros.errors import DeploymentError

    if arguments.runs < 1:
        raise DeploymentError(f"--runs is {arguments.runs}, expected at least 1")
    race = load_scheduler_rules(arguments.scheduler).race
    rng = np.random.default_rng(arguments.seed)
    if arguments.benchmark:
        return _print_benchmark(race, arguments.runs, arguments.seed, arguments.only, as_json=arguments.json)
    table = read_success_table(arguments.table) if arguments.table else published_table()
    with progress_bar("races", is_shown=not arguments.json) as report:
        result = simulate_table(
            table, race, arguments.runs, rng, is_score_shuffled=arguments.shuffle_scores, report=report
        )
    wins = np.bincount(result.winner, minlength=len(table.names)) / len(result.winner)
    spent = result.trials.sum(axis=1)
    document = {
        "runs": arguments.runs,
        "good_fraction": result.good_fraction(race.tolerance),
        "best_fraction": result.good_fraction(0.0),
        "mean_regret": float(result.regret.mean()),
        "settled_fraction": float(result.is_settled.mean()),
        "episodes_mean": float(spent.mean()),
        "names": table.names,
        "wins": wins.tolist(),
        "episodes_by_candidate": result.trials.mean(axis=0).tolist(),
    }
    if arguments.json:
        print(json.dumps(document))
        return 0
    print(
        f"{arguments.runs} races of {len(table.names)} candidates, at most {race.budget_episodes} robot episodes each"
    )
    print(f"within {race.tolerance:.0%} of the best: {document['good_fraction']:.1%} of runs")
    print(f"the best itself: {document['best_fraction']:.1%}; success given up on average: {result.regret.mean():.2%}")
    print(f"episodes: {spent.mean():.0f} on average; ended before the budget did: {result.is_settled.mean():.1%}")
    for index in np.argsort(-table.rates):
        print(
            f"  {table.names[index]:<28} success {table.rates[index]:6.2%}  score {table.scores[index]:.3f}"
            f"  chosen {wins[index]:6.1%}  episodes {result.trials[:, index].mean():6.1f}"
        )
    return 0


def _print_benchmark(race: RaceRules, runs: int, seed: int, only: str, *, as_json: bool) -> int:
    import dataclasses

    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.deployment.race_benchmark import run_benchmark

    methods = ("race", "equal", "halving", "top-two", "best score")
    if not as_json:
        print(f"share of {runs} runs that end within {race.tolerance:.0%} of the best")
        print("ahead: of the best alternative, in points, +- its standard error")
        shares = " ".join(f"{method:>10}" for method in methods)
        print(f"{'':<32} {shares} {'ahead':>13}   episodes of budget  settled    bias", flush=True)
    with progress_bar("races", is_shown=not as_json) as report:
        for cell in run_benchmark(known_tables(), race, runs, seed, only, report):
            if as_json:
                print(json.dumps(dataclasses.asdict(cell)), flush=True)
                continue
            shares = " ".join(f"{cell.good[method]:>10.1%}" for method in methods)
            ahead = f"{100 * cell.ahead:+.1f} +- {100 * cell.ahead_error:.1f}"
            spent = f"{cell.episodes:>8.0f} {cell.episodes / cell.budget:>8.0%}"
            print(f"{cell.name:<32} {shares} {ahead:>13}   {spent} {cell.settled:>8.0%} {cell.bias:>+8.3f}", flush=True)
    return 0
