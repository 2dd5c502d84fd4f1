"""`opc reproduce pong`: the paper's image experiment at the scale of a budget."""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import number, whole_number
from opc_ros.cli.progress_bar import progress_bar
from opc_ros.errors import ConfigError

if TYPE_CHECKING:
    from opc_ros.experiments.pong.experiment import PongResult
    from opc_ros.progress import Report

SUMMARY = "Atari Pong, the next point decides: DQN and Double DQN in nine variants, three stickiness levels"
EXAMPLES = """examples:
  opc reproduce pong --budget 2             a sanity run: does everything work here?
  opc reproduce pong --budget 100           enough training for good and bad candidates
  opc reproduce pong --budget 100           again: resumes where it was interrupted
  opc reproduce pong --budget 100 --page opc_ros/experiments/README.md

The same budget is the same experiment on every machine: sizes follow from it, not from a clock. It is roughly
the time that two cores take.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the experiment."""
    parser.add_argument(
        "--budget",
        type=number(0.01),
        default=10.0,
        metavar="MINUTES",
        help="about how long two cores may take (default 10)",
    )
    parser.add_argument(
        "--sticky",
        type=float,
        nargs="+",
        default=[0.0, 10.0, 25.0],
        metavar="PERCENT",
        help="how often the emulator repeats the previous action (default 0 10 25)",
    )
    parser.add_argument(
        "--workers", type=whole_number(1), help="processes that train and play (default: one for each core)"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write the headline into this Markdown page, all tables and plots into pong.md beside it",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, record, measure, score, and print the table beside the paper's."""
    from opc_ros.experiments.figures import open_folder
    from opc_ros.experiments.pong.experiment import PongPlan, run_pong
    from opc_ros.experiments.pong.plots import draw_plots
    from opc_ros.policies.compute import available_cores

    if arguments.workers is not None and arguments.workers < 1:
        raise ConfigError(f"workers: got {arguments.workers}, expected at least 1")
    if not all(0 <= percent < 100 for percent in arguments.sticky):
        raise ConfigError(f"sticky is {arguments.sticky}, expected percentages from 0 to below 100")
    plan = PongPlan.for_budget(arguments.budget, tuple(percent / 100 for percent in arguments.sticky))
    out = arguments.out / f"pong-{arguments.budget:g}"
    open_folder(out)

    def open_report(title: str) -> AbstractContextManager[Report]:
        if not arguments.json:
            print(title, file=sys.stderr, flush=True)
        return progress_bar(title, is_shown=not arguments.json)

    workers = arguments.workers or available_cores()
    result = run_pong(plan, out, open_report, lambda: datetime.datetime.now(datetime.UTC), workers=workers)
    folder = arguments.page.parent / "plots" if arguments.page else out
    open_folder(folder)
    plots = draw_plots(result, folder)
    if arguments.page:
        _write_page(result, plots, arguments)
    if arguments.json:
        print(json.dumps({**asdict(result), "plots": [str(plot) for plot in plots]}, indent=2))
        return 0
    _print(result)
    for plot in plots:
        print(f"plot: {plot}")
    return 0


def _write_page(result: PongResult, plots: list[Path], arguments: argparse.Namespace) -> None:
    from opc_ros.experiments.pong.page import write_pages

    sticky = [f"{percent:g}" for percent in arguments.sticky]
    command = shlex.join(["opc", "reproduce", "pong", "--budget", f"{arguments.budget:g}", "--sticky", *sticky])
    write_pages(arguments.page, result, plots, command)


def _print(result: PongResult) -> None:
    from opc_ros.experiments.pong.page import goal_lines, scale_lines, table_lines

    first = result.levels[0]
    success = sorted(candidate.success for candidate in first.candidates)
    print("\n".join(scale_lines(result.plan, len(first.candidates))))
    print(
        f"points won by the worst, the middle and the best: {success[0]:.2f}, {success[len(success) // 2]:.2f}, ",
        end="",
    )
    print(f"{success[-1]:.2f}")
    print("\n".join(table_lines(result)))
    print("\n".join(goal_lines(first)))
