"""`opc evaluate`: the true success of candidates in the twin's worlds."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import whole_number

if TYPE_CHECKING:
    from opc_ros.policies.candidate import Candidate
    from sim_bridge.training.evaluation import TrialPlan
    from sim_bridge.training.true_success import TrueSuccess

    Results = dict[tuple[str, str], TrueSuccess]

WORLDS = ("train", "test", "pseudo_real")

EXAMPLES = """examples:
  opc evaluate first-00600 --world test
  opc evaluate --candidates sim_bridge/zoo/candidates --cache sim_bridge/zoo/outcomes.parquet --known
  opc evaluate --world pseudo_real --episodes 50 --known-success measured.csv

Each episode's outcome is kept in the cache by candidate id and world: a second run plays only what is
new, and an interrupted one resumes. The CSV is what `opc score --known-success` reads."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="measure the true success of candidates in the twin",
        description="Play seeded episodes of each candidate in the twin and count how many succeed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("candidates_given", nargs="*", metavar="CANDIDATE", help="name, folder or id (default: all)")
    parser.add_argument(
        "--candidates", type=Path, default=Path("candidates"), help="registry folder (default: ./candidates)"
    )
    parser.add_argument("--world", action="append", help=f"may be repeated (default: {', '.join(WORLDS)})")
    parser.add_argument("--episodes", type=whole_number(1), default=200, help="episodes in each world (default: 200)")
    parser.add_argument(
        "--seed", type=whole_number(0), default=1_000_000, help="seed of the first episode (default: 1000000)"
    )
    parser.add_argument(
        "--image-size",
        type=whole_number(0),
        default=0,
        help="size of the twin's images in pixels (default: the candidate's)",
    )
    parser.add_argument("--workers", type=whole_number(1), help="processes (default: one for each core)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("outcomes"),
        help="folder of outcomes (default: ./outcomes), or with --known a packed table",
    )
    parser.add_argument("--pack", type=Path, metavar="PARQUET", help="merge all outcomes of the cache into this table")
    parser.add_argument("--known", action="store_true", help="play nothing; use cached outcomes only")
    parser.add_argument(
        "--known-success", type=Path, metavar="CSV", help="write candidate, success, episodes; one world"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--allow-code", action="store_true", help="load formats that can run code of their own")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.errors import ConfigError
    from opc_ros.policies.compute import available_cores, limit_threads_here
    from opc_ros.policies.registry import CandidateRegistry
    from sim_bridge.training.evaluation import TrialPlan, evaluate, read_outcomes
    from sim_bridge.training.outcome_table import is_table, pack_outcomes
    from sim_bridge.training.success_table import to_markdown, to_text

    if arguments.pack and (not is_table(arguments.pack) or is_table(arguments.cache)):
        raise ConfigError(f"--pack {arguments.pack}: expected the name of a .parquet file, and a folder as --cache")
    plan = TrialPlan(
        worlds=tuple(dict.fromkeys(arguments.world or WORLDS)),
        episodes=arguments.episodes,
        first_seed=arguments.seed,
        image_size=arguments.image_size,
        allow_code=arguments.allow_code,
    )
    if arguments.known_success and len(plan.worlds) != 1:
        raise ConfigError(f"--known-success: {len(plan.worlds)} worlds, expected one; give --world once")
    candidates, unreadable = CandidateRegistry(arguments.candidates).find_each(arguments.candidates_given)
    if unreadable:
        raise unreadable[0][1]
    if arguments.known:
        results = read_outcomes(candidates, plan, arguments.cache)
    else:
        limit_threads_here(1)  # the processes share the cores, so more threads would only compete
        with progress_bar("playing", is_shown=not arguments.json) as report:
            workers = arguments.workers or available_cores()
            results = evaluate(candidates, plan, arguments.cache, workers=workers, report=report)
    if arguments.pack:
        pack_outcomes(arguments.cache, arguments.pack)
    print(_to_json(candidates, plan, results) if arguments.json else to_text(candidates, plan.worlds, results))
    if arguments.markdown:
        arguments.markdown.write_text(to_markdown(candidates, plan.worlds, results), encoding="utf-8")
    if arguments.known_success:
        _write_csv(arguments.known_success, candidates, plan.worlds[0], results)
    return 0


def _to_json(candidates: list[Candidate], plan: TrialPlan, results: Results) -> str:
    rows = []
    for candidate in candidates:
        for world in plan.worlds:
            found = results.get((candidate.id, world))
            if found is not None:
                rows.append(
                    {
                        "candidate": candidate.name,
                        "candidate_id": candidate.id,
                        "world": world,
                        "success": found.share,
                        "low": found.low,
                        "high": found.high,
                        "episodes": found.episodes,
                    }
                )
    return json.dumps(rows)


def _write_csv(path: Path, candidates: list[Candidate], world: str, results: Results) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("candidate", "success", "episodes"))
        for candidate in candidates:
            found = results.get((candidate.id, world))
            if found is not None:
                writer.writerow((candidate.id, f"{found.share:.6f}", found.episodes))
