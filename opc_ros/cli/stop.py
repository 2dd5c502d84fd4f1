"""`opc stop` and `opc release`: hold arms at once, and let them move again."""

from __future__ import annotations

import argparse
import json

UNCONFIRMED = 3  # exit code: told, but not every robot has said that it obeys
EXAMPLES = """examples:
  opc stop                  # every robot that is heard
  opc stop arm1 arm3
  opc release arm1          # after you have looked at the arm
  opc stop --json

A stop needs no key. It stays, also for nodes that start later, until a release. Exit 0: everyone who holds the arm has
confirmed. Exit 3: one has not; its name is printed: press the stop at the arm. Software replaces no emergency stop."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for word, what in (("stop", "hold arms at once"), ("release", "let stopped arms move again")):
        parser = verbs.add_parser(
            word, help=what, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        at_least = "*" if word == "stop" else "+"
        parser.add_argument("robots", nargs=at_least, metavar="ROBOT", help="names of robots")
        parser.add_argument(
            "--timeout", type=float, default=5.0, metavar="SECONDS", help="how long to wait for robots (default 5)"
        )
        parser.add_argument("--json", action="store_true", help="for machines")
        parser.set_defaults(run=run, is_stopped=word == "stop")


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.checks import require_ros

    require_ros()
    from opc_ros.ros.stop_call import StopCall

    with StopCall() as call:
        confirmed, silent = call.tell(arguments.robots, is_stopped=arguments.is_stopped, timeout_s=arguments.timeout)
    word = "stopped" if arguments.is_stopped else "released"
    if arguments.json:
        print(json.dumps({word: confirmed, "unconfirmed": silent}))
    else:
        print(f"{word}: {', '.join(confirmed) or 'nobody'}")
        if silent:
            print(f"NOT CONFIRMED in {arguments.timeout:g} s: {', '.join(silent)}; press the stop at the arm")
        elif not confirmed:
            print("no robot was heard: is this the lab's ROS_DOMAIN_ID? Press the stop at the arm")
    return 0 if confirmed and not silent else UNCONFIRMED
