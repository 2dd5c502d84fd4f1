"""`opc rank`: rank candidates again from values already in the Q cache."""

from __future__ import annotations

import argparse

from opc_ros.cli.score import add_ranking_arguments, run_with

EXAMPLES = """examples:
  opc rank --metric opc
  opc rank --snapshot week-46 --prior 0.8 --top-k 5
  opc rank --known-success measured.csv

Runs no network: every value must be in the Q cache already, `opc score` puts it there. The ranking is kept
in SCORES/<id> beside the others and not published: exploring changes nothing for the gate."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "rank",
        help="rank already scored candidates by another metric, prior or snapshot",
        description="Rank candidates from values already in the Q cache, and write a report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ranking_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.scoring.engines import NoEngine

    return run_with(NoEngine(), arguments)
