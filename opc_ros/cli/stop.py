"""`opc stop` and `opc release`: hold arms at once, and let them move again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from opc_ros.bringup.lab_names import NAMESPACE

UNCONFIRMED = 3  # exit code: sent, but not every robot has confirmed
STOP_EXAMPLES = """examples:
  opc stop                  # every robot it can hear
  opc stop arm1 arm3
  opc stop --json
  OPC_NAMESPACE=lab_a opc stop   # only the lab started with namespace:=lab_a, where several share a domain

A stop needs no key. It stays, also for nodes that start later, until `opc release`. Exit 0: everyone who holds the arm
has confirmed. Exit 3: one has not; its name is printed: press the stop at the arm. No software replaces that stop."""
RELEASE_EXAMPLES = """examples:
  opc release arm1          # after you have looked at the arm
  opc release arm1 --key ~/.ssh/id_ed25519
  opc release arm1 --json

An operator signs a release (`opc people add NAME --key FILE --role operator`). It lifts the stops that were heard until
then; one pressed in the meantime stays. `opc up twin` made a key for you. Exit 3: the arm is still held."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for word, what, examples in (
        ("stop", "hold arms at once", STOP_EXAMPLES),
        ("release", "let stopped arms move again", RELEASE_EXAMPLES),
    ):
        parser = verbs.add_parser(
            word, help=what, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        at_least = "*" if word == "stop" else "+"
        parser.add_argument("robots", nargs=at_least, metavar="ROBOT", help="names of robots")
        parser.add_argument(
            "--timeout", type=float, default=5.0, metavar="SECONDS", help="how long to wait for robots (default 5)"
        )
        parser.add_argument("--json", action="store_true", help="for machines")
        parser.set_defaults(run=run_stop if word == "stop" else run_release)
        if word == "release":
            parser.add_argument(
                "--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh"
            )
            parser.add_argument("--person", default="", help="sign as this person, if you have keys of several people")
            parser.add_argument(
                "--state", type=Path, default=Path("deployment"), help="the deployment's folder, with its keys"
            )


def run_stop(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.checks import require_ros

    require_ros()
    from opc_ros.ros.stop_call import StopCall

    with StopCall() as call:
        confirmed, silent = call.stop(arguments.robots, timeout_s=arguments.timeout)
        _tell_left_alone(call.other_labs, "stop")
    return _tell(arguments, "stopped", confirmed, silent, "press the stop at the arm")


def run_release(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.checks import require_ros
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.signing import find_signer

    require_ros()
    from opc_ros.ros.stop_call import StopCall

    signs = find_signer(DeploymentFolder(arguments.state).keys, arguments.key, arguments.person)
    with StopCall() as call:
        confirmed, silent = call.release(arguments.robots, signs, timeout_s=arguments.timeout)
        if silent:
            _tell_left_alone(call.other_labs, "release ROBOT")
    return _tell(arguments, "released", confirmed, silent, f"do they know {signs.person} as operator? See their logs")


def _tell_left_alone(labs: tuple[str, ...], word: str) -> None:
    """Warn about other robots in this domain, which a person at the wrong terminal must learn are still moving."""
    for lab in labs:
        print(
            f"left alone: robots of the lab {lab or 'without a namespace'}; for them: {NAMESPACE}={lab} opc {word}",
            file=sys.stderr,
        )


def _tell(arguments: argparse.Namespace, word: str, confirmed: list[str], silent: list[str], advice: str) -> int:
    if arguments.json:
        print(json.dumps({word: confirmed, "unconfirmed": silent}))
    else:
        print(f"{word}: {', '.join(confirmed) or 'nobody'}")
        if silent:
            print(f"NOT CONFIRMED in {arguments.timeout:g} s: {', '.join(silent)}; {advice}")
        elif not confirmed:
            print("no robot was heard: are these the lab's ROS_DOMAIN_ID and OPC_NAMESPACE? Press the stop at the arm")
    return 0 if confirmed and not silent else UNCONFIRMED
