"""`opc reproduce grasping`: the paper's three grasping columns at this machine's scale."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli.argument_types import number, whole_number
from opc_ros.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from opc_ros.experiments.grasping import WorldResult
    from opc_ros.experiments.validation_sets import Budget
    from opc_ros.policies.candidate import Candidate

SUMMARY = "scores of the zoo against its true success on train objects, test objects and in the pseudo-real world"
EXAMPLES = """examples:
  opc reproduce grasping                        all three worlds
  opc reproduce grasping --budget 0.1           a tenth of the validation episodes
  opc reproduce grasping --world test --json    one column, for machines
  opc reproduce grasping --only-collect         play the validation episodes, score nothing yet

Plays the validation episodes that DATA lacks, scores every candidate whose true success is in OUTCOMES
(`opc evaluate` fills it) and compares. Both the episodes and the Q values are kept: an interrupted run
resumes, and a second one costs only what is new.
"""


def add_parser(experiments: Any) -> None:
    """Add the parser."""
    parser = experiments.add_parser(
        "grasping",
        help=SUMMARY,
        description=SUMMARY,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    zoo = Path("sim_bridge/zoo")
    parser.add_argument(
        "--budget",
        type=number(0.01),
        default=1.0,
        help="size of the validation sets (default 1; the published results used 0.25)",
    )
    parser.add_argument(
        "--world",
        action="append",
        help="train, test or pseudo_real; may be repeated (default: all); with --only-collect also second_pseudo_real",
    )
    parser.add_argument("--candidates", type=Path, help=f"default: {zoo}/candidates, and those of --archived")
    parser.add_argument(
        "--outcomes", type=Path, default=zoo / "outcomes.parquet", help=f"default: {zoo}/outcomes.parquet"
    )
    parser.add_argument(
        "--earlier", type=Path, default=zoo / "earlier", help="candidates whose play is validation data, never ranked"
    )
    parser.add_argument(
        "--archived",
        type=Path,
        default=zoo / "archived.yaml",
        help="more candidates, taken from the repository's history into DATA; not with --candidates of your own",
    )
    parser.add_argument(
        "--least-trials",
        type=whole_number(1),
        default=200,
        help="fewest trials of a candidate to be compared (default: 200)",
    )
    parser.add_argument("--data", type=Path, default=Path("reproduced/grasping"), help="stores and Q values")
    parser.add_argument("--out", type=Path, default=Path("reproduced"), help="where plots go (default reproduced/)")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write the headline into this Markdown page, all tables and plots into grasping.md beside it",
    )
    parser.add_argument("--workers", type=whole_number(1), help="processes that play (default: one for each core)")
    parser.add_argument(
        "--first-seed",
        type=whole_number(0),
        default=500_000,
        help="seed of the first validation episode (default: 500000, as published); another gives fresh episodes",
    )
    parser.add_argument("--only-collect", action="store_true", help="play the validation episodes and stop")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import ConfigError
    from opc_ros.experiments.figures import open_folder
    from opc_ros.experiments.grasping_figures import draw_grasping
    from opc_ros.experiments.grasping_page import write_pages
    from opc_ros.experiments.validation_sets import COLUMNS, JUDGING_WORLD, Budget

    names = tuple(dict.fromkeys(arguments.world or COLUMNS))
    known = (*COLUMNS, JUDGING_WORLD) if arguments.only_collect else COLUMNS
    for name in names:
        if name not in known:
            raise ConfigError(f"--world {name}: expected one of {', '.join(known)}")
    budget = Budget.of_scale(arguments.budget)
    folder = arguments.page.parent / "plots" if arguments.page else arguments.out
    open_folder(folder)
    earlier, candidates = _read_earlier(arguments), _read_candidates(arguments, names)
    worlds = [_run_world(name, arguments, budget, earlier, candidates) for name in names]
    results = [world for world in worlds if world is not None]
    if not results:
        return 0
    plots = draw_grasping(results, folder)
    if arguments.page:
        command = "opc " + " ".join(sys.argv[1:])
        write_pages(arguments.page, results, plots, command=command)
    if arguments.json:
        print(json.dumps({"worlds": list(map(_to_json, results)), "plots": list(map(str, plots))}, indent=2))
    else:
        for world in results:
            print("\n".join(_lines(world)))
        print("\n".join(f"plot: {plot}" for plot in plots))
    return 0


def _read_all(folder: Path) -> list[Candidate]:
    from opc_ros.policies.registry import CandidateRegistry

    found, unreadable = CandidateRegistry(folder).find_each(())
    if unreadable:
        raise unreadable[0][1]
    return found


def _read_earlier(arguments: argparse.Namespace) -> list[Candidate]:
    """Candidates in the folder, and those that the file beside it lists from the repository's history."""
    from opc_ros.experiments.archived import restore_archived

    found = _read_all(arguments.earlier)
    archive = arguments.earlier.with_name(f"archived_{arguments.earlier.name}.yaml")
    if archive.is_file():
        found += restore_archived(archive, arguments.data / "earlier")
    return found


def _read_candidates(arguments: argparse.Namespace, worlds: Sequence[str]) -> list[Candidate]:
    """Candidates sorted by name, which decides ties; archived ones were not measured in the pseudo-real world."""
    from opc_ros.experiments.archived import restore_archived

    if arguments.candidates is not None:
        return _read_all(arguments.candidates)
    found = _read_all(arguments.archived.parent / "candidates")
    if set(worlds) - {"pseudo_real"}:
        found += restore_archived(arguments.archived, arguments.data / "candidates")
    return sorted(found, key=lambda candidate: candidate.name)


def _run_world(
    name: str,
    arguments: argparse.Namespace,
    budget: Budget,
    earlier: Sequence[Candidate],
    candidates: Sequence[Candidate],
) -> WorldResult | None:
    from opc_ros.experiments.grasping import run_world
    from opc_ros.experiments.validation_sets import collect_missing, plan_sets, store_folder
    from opc_ros.policies.compute import available_cores
    from opc_ros.scoring.engines import LocalEngine
    from opc_ros.scoring.q_cache import QCache
    from opc_ros.store import open_store
    from sim_bridge.training.evaluation import TrialPlan, read_outcomes

    sets = plan_sets(name, budget, earlier, first_seed=arguments.first_seed)
    true_success = read_outcomes(candidates, TrialPlan(worlds=(name,)), arguments.outcomes)
    with open_store(store_folder(arguments.data, name), create=True) as store:
        with progress_bar(f"playing in {name}", is_shown=not arguments.json) as report:
            collect_missing(store, sets, workers=arguments.workers or available_cores(), report=report)
        if arguments.only_collect:
            return None
        with (
            QCache(arguments.data / "q.sqlite") as q_cache,
            progress_bar(f"scoring in {name}", is_shown=not arguments.json) as report,
        ):
            return run_world(
                name,
                store,
                sets,
                candidates,
                true_success,
                q_cache,
                LocalEngine(),
                budget=budget,
                least_trials=arguments.least_trials,
                report=report,
            )


def _lines(world: WorldResult) -> Iterator[str]:
    from opc_ros.experiments.agreement_intervals import METRICS
    from opc_ros.experiments.figures import LABELS
    from opc_ros.experiments.grasping import PUBLISHED

    fewest, _ = world.trials
    yield (
        f"\n{world.world}: {len(world.candidates)} candidates, {fewest} trials or more each, true success "
        f"{world.success.min():.0%} to {world.success.max():.0%}; noise in trials leaves ξ {world.ceiling:.2f}"
    )
    for found in world.sets:
        yield f"  {found.name} set: {found.episodes} episodes, {found.successes} successes"
        yield f"    {'':<18} {'R²':>5} {'95 %':>12} {'paper':>6}   {'ξ':>5} {'95 %':>14} {'paper':>6}"
        for metric in METRICS:
            if metric not in found.figures:
                continue
            figure, (paper_r, paper_xi) = found.figures[metric], PUBLISHED[world.world][metric]
            r_low, r_high = figure.r_squared_over_candidates
            low, high = figure.spearman_over_candidates
            yield (
                f"    {LABELS[metric]:<18} {figure.r_squared:5.2f} {f'{r_low:.2f}..{r_high:.2f}':>12} {paper_r:6.2f}   "
                f"{figure.spearman:5.2f} {f'{low:.2f}..{high:.2f}':>14} {paper_xi:6.2f}"
            )


def _to_json(world: WorldResult) -> dict[str, Any]:
    return {
        "world": world.world,
        "snapshot": world.snapshot_id,
        "candidates": [
            {"name": candidate.name, "id": candidate.id, "success": success}
            for candidate, success in zip(world.candidates, world.success.tolist(), strict=True)
        ],
        "left_out": list(world.left_out),
        "ceiling": world.ceiling,
        "sets": [
            {
                "name": found.name,
                "episodes": found.episodes,
                "successes": found.successes,
                "scores": {metric: values.tolist() for metric, values in found.scores.items()},
                "figures": {metric: asdict(figure) for metric, figure in found.figures.items()},
            }
            for found in world.sets
        ],
    }
