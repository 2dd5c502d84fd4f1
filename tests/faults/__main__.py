"""Fault injections on a moving twin: real processes, seeded, counted; exit 1 when a promise is broken."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from opc_ros.bringup.supervisor import heed_signals
from opc_ros.cli.progress_bar import progress_bar
from tests.benchmarks.bench_stop import make_lab, scoring
from tests.domains import own_domain
from tests.faults.arm import (
    GOAL_REST_MS,
    Outcome,
    choose_kinds,
    judge_all,
    keep_outcome,
    read_outcomes,
    run_all,
    tabulate,
)
from tests.faults.arm_kinds import KINDS
from tests.faults.arm_rig import ArmRig

EXAMPLES = """examples:
  python -m tests.faults --runs 1000 --seed 7 --load 2 --results faults.jsonl   # again after Ctrl-C: it resumes
  python -m tests.faults --runs 42 --only "killed guard" "killed runner" "killed driver" --seed 1
  python -m tests.faults --runs 20 --only stop --load 0 --json"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="how many faults (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="which faults, in which order, at which moments")
    parser.add_argument("--load", type=int, default=2, help="workers of `opc score` beside it (default: 2)")
    parser.add_argument(
        "--rest-ms",
        type=float,
        default=GOAL_REST_MS,
        help=f"allowed at the 99th percentile (default: {GOAL_REST_MS:g})",
    )
    parser.add_argument("--only", nargs="+", choices=KINDS, metavar="KIND", help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--results", type=Path, help="JSON lines; runs that are in it already are not repeated")
    parser.add_argument("--json", action="store_true", help="for machines")
    arguments = parser.parse_args()
    heed_signals()
    kinds = choose_kinds(arguments.runs, arguments.seed, arguments.only or KINDS)
    outcomes = read_outcomes(arguments.results) if arguments.results else []
    outcomes = [each for each in outcomes if each.run < len(kinds) and kinds[each.run] == each.kind]
    with tempfile.TemporaryDirectory(prefix="faults_") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(own_domain())
        if arguments.load:
            stack.enter_context(scoring(make_lab(folder / "scored"), arguments.load))
        rig = ArmRig(folder / "lab")
        stack.callback(rig.close)
        report = stack.enter_context(progress_bar("faults", is_shown=not arguments.json))

        def tell(outcome: Outcome) -> None:
            outcomes.append(outcome)
            if arguments.results:
                keep_outcome(arguments.results, outcome)
            report(len(outcomes), len(kinds))

        run_all(rig, kinds, arguments.seed, [each.run for each in outcomes], tell)
    broken = judge_all(outcomes, arguments.rest_ms)
    if arguments.json:
        print(json.dumps({"outcomes": [asdict(each) for each in outcomes], "broken": broken}))
    else:
        print("\n".join(tabulate(outcomes)))
        print(f"beside {arguments.load} scoring workers, load average {os.getloadavg()[0]:.1f}")
        print("\n".join(broken) or "every promise was kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
