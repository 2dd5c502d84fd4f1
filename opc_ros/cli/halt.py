"""`opc deploy halt` and `resume`: take all robot time back, and say who has confirmed it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.deployment.halting import Halt
    from opc_ros.deployment.keys import Signer
    from opc_ros.deployment.queue import Queue

UNCONFIRMED = 3  # exit code: the halt is in force, but not every robot has said that it obeys
HALT_EXAMPLES = """examples:
  opc deploy halt --reason "smoke"
  opc deploy halt --robot arm3 --reason "gripper squeaks" --json

A halt is in force once this command has written it, also where the scheduler hangs or is down. Exit 0: every robot that
held robot time has confirmed. Exit 3: one has not (yet); its name is printed: go there and press its stop."""


def add_parsers(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> list[argparse.ArgumentParser]:
    """The two verbs, without the arguments about who says so."""
    made = []
    for word, what in (("halt", "lend no robot time and revoke what is lent"), ("resume", "end a halt")):
        parser = actions.add_parser(
            word, help=what, epilog=HALT_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--robot", default="", help="one robot; default: every robot known or ever lent")
        parser.add_argument("--json", action="store_true", help="for machines")
        parser.set_defaults(run=run_halt if word == "halt" else run_resume)
        made.append(parser)
    made[0].add_argument(
        "--timeout", type=float, default=5.0, metavar="SECONDS", help="how long to wait for robots to confirm"
    )
    return made


def run_halt(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.halting import halt

    with DeploymentFolder(arguments.state).open() as (queue, signer):
        halted = halt(queue, arguments.robot, arguments.person, arguments.reason, time.time_ns())
        confirmed = _await(queue, signer, halted, arguments.timeout)
    missing = [robot for robot in halted.awaited if robot not in confirmed]
    idle = [robot for robot in halted.robots if robot not in halted.awaited]
    if arguments.json:
        document = {"halted": halted.robots, "confirmed": sorted(confirmed), "unconfirmed": missing, "idle": idle}
        print(json.dumps(document))
    else:
        print(f"halted: {', '.join(halted.robots) or 'no robot is known yet; those that come are halted too'}")
        for word, names in (("confirmed", sorted(confirmed)), ("nothing was lent to", idle)):
            if names:
                print(f"{word}: {', '.join(names)}")
        if missing:
            print(f"NOT CONFIRMED in {arguments.timeout:g} s: {', '.join(missing)}; go there and press stop")
    return UNCONFIRMED if missing else 0


def run_resume(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.halting import resume

    with DeploymentFolder(arguments.state).open() as (queue, _):
        robots = resume(queue, arguments.robot, arguments.person, arguments.reason, time.time_ns())
    print(json.dumps({"resumed": robots}) if arguments.json else f"resumed: {', '.join(robots) or 'no robot is known'}")
    return 0


def _await(queue: Queue, signer: Signer, halted: Halt, timeout_s: float) -> frozenset[str]:
    """By what the robots say themselves, or where this machine has no ROS, by what the scheduler writes down."""
    import time

    from opc_ros.deployment.halting import signed_revocations, still_lent
    from opc_ros.deployment.permit import to_text

    if not halted.awaited:
        return frozenset()

    def given_back() -> Iterable[str]:
        lent = still_lent(queue, halted.awaited)
        return [robot for robot in halted.open_on if robot not in lent]

    try:
        from opc_ros.ros.halt_confirmation import await_confirmations
    except (ImportError, RuntimeError):
        deadline = time.monotonic() + timeout_s
        while len(list(given_back())) < len(halted.awaited) and time.monotonic() < deadline:
            time.sleep(0.05)
        return frozenset(given_back())
    signed, revoked = signed_revocations(queue, signer, time.time_ns())
    return await_confirmations(halted.awaited, to_text(signed), halted.serial, revoked, given_back, timeout_s)
