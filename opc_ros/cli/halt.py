"""`opc deploy halt` and `resume`: take back all robot time, and report which robots have confirmed."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.workflows.halting_robots import RobotCall

UNCONFIRMED = 3  # exit code: the halt is in force, but not every robot has confirmed
HALT_EXAMPLES = """examples:
  opc deploy halt --reason "smoke"
  opc deploy halt --robot arm3 --reason "gripper squeaks" --json
  opc deploy resume --robot arm3 --reason "gripper replaced"

A halt is in force once this command has written it, also where the scheduler hangs or is down. Exit 0: every robot that
held robot time has confirmed. Exit 3: one has not (yet); its name is printed: go there and press its stop."""


def add_parsers(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> list[argparse.ArgumentParser]:
    """Add the two verbs; the caller adds the arguments about who decides."""
    made = []
    for word, what in (("halt", "revoke all leases and grant no more"), ("resume", "end a halt")):
        parser = actions.add_parser(
            word, help=what, epilog=HALT_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--robot", default="", help="one robot; default: every robot known or ever leased")
        parser.add_argument("--json", action="store_true", help="for machines")
        parser.set_defaults(run=run_halt)
        made.append(parser)
    made[0].add_argument(
        "--timeout", type=float, default=5.0, metavar="SECONDS", help="how long to wait for robots to confirm"
    )
    return made


def run_halt(arguments: argparse.Namespace) -> int:
    from opc_ros.workflows.halting_robots import halt_robots

    result = halt_robots(
        arguments.state, arguments.robot, arguments.person, arguments.reason, arguments.timeout, _call_robots
    )
    if arguments.json:
        print(json.dumps(dataclasses.asdict(result)))
        return UNCONFIRMED if result.unconfirmed else 0
    print(f"halted: {', '.join(result.halted) or 'no robot is known yet; robots that join later are halted too'}")
    for word, names in (("confirmed", result.confirmed), ("had no lease", result.idle)):
        if names:
            print(f"{word}: {', '.join(names)}")
    if not result.is_written:
        print("the queue is held by a program that hangs: end it; the halt is kept beside the queue until then")
    if result.unconfirmed:
        print(f"NOT CONFIRMED in {arguments.timeout:g} s: {', '.join(result.unconfirmed)}; go there and press stop")
    return UNCONFIRMED if result.unconfirmed else 0


def _call_robots(robots: tuple[str, ...]) -> RobotCall | None:
    """A direct connection to the robots over ROS; None if this machine has no ROS."""
    try:
        from opc_ros.ros.halt_confirmation import HaltCall
    except (ImportError, RuntimeError):
        return None
    return HaltCall(robots)
