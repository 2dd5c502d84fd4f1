"""`opc up`: start a system's nodes where there is no `ros2 launch`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.bringup.system import System

EXAMPLES = """examples:
  opc up scripted
  opc up scripted robots:=arm1,arm2 store:=/data/store
  ROS_DOMAIN_ID=7 opc up scripted episodes:=5
  opc up --list

`ros2 launch opc_ros scripted.launch.py` starts the same nodes with the same arguments.
Ctrl-C stops all of them; scripted and collect with episodes:=N end by themselves once each arm
has played N. Guard, recorder, scorer and scheduler are restarted when they die, up to three times
in ten minutes. Any other node that fails is named and not restarted, and stops the others
unless --keep-going is given."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "up",
        help="start the nodes of a system and stream their logs",
        description="Start the nodes of a system and stream their logs, until they end or Ctrl-C.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("system", nargs="?", help="which system; --list shows them")
    parser.add_argument("arguments", nargs="*", metavar="name:=value", help="arguments of the system")
    parser.add_argument("--list", action="store_true", help="show the systems and their arguments")
    parser.add_argument("--dry-run", action="store_true", help="print the commands instead of running them")
    parser.add_argument("--keep-going", action="store_true", help="leave the other nodes running when one fails")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.system import parse_arguments
    from opc_ros.bringup.systems import SYSTEMS, find_system

    if arguments.list:
        for system in SYSTEMS:
            print(f"{system.name}: {system.summary}")
            for argument in system.arguments:
                print(f"  {f'{argument.name}:={argument.default}':<24} {argument.meaning}")
        return 0
    if arguments.system is None:
        arguments.parser.error("name a system, or use --list")
    system, given = find_system(arguments.system), parse_arguments(arguments.arguments)
    nodes = system.nodes(given)
    if arguments.dry_run:
        import shlex

        for node in nodes:
            settings = [f"{name}={value}" for name, value in node.environment.items()]
            print(shlex.join([*settings, *node.command()]))
        return 0
    return _supervise(arguments, system, given)


def _supervise(arguments: argparse.Namespace, system: System, given: dict[str, str]) -> int:
    import os
    import signal

    from opc_ros.bringup.checks import require_ros
    from opc_ros.bringup.domain import claim_lab, read_domain
    from opc_ros.bringup.nodes import RESTARTED, SERVANTS
    from opc_ros.bringup.supervisor import Supervisor, heed_signals, write_line

    require_ros()
    heed_signals()
    lab = read_domain(os.environ)
    arms = {read_domain({**os.environ, **node.environment}) for node in system.nodes(given)} - {lab}
    with claim_lab(lab, system.namespace(given), arms, f"opc up {arguments.system}"):
        for line in system.prepare(given):
            write_line(line)
        nodes = system.nodes(given)
        restarted = {node.label for node in nodes if node.program in RESTARTED}
        servants = {node.label for node in nodes if node.program in SERVANTS}
        with Supervisor(
            nodes,
            write_line,
            is_restarted=lambda node: node.label in restarted,
            is_servant=lambda node: node.label in servants,
        ) as running:
            try:
                code = running.wait(keep_going=arguments.keep_going)
                if code == 0 and not running.is_done:
                    write_line("every arm has played its episodes: stopping the other nodes")
                return code
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                write_line("stopping all nodes")
                return 130
