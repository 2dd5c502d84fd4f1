"""`opc console`: the lab's live page."""

from __future__ import annotations

import argparse
import json

EXAMPLES = """examples:
  opc console                                  # http://127.0.0.1:8640/, with the lab's folders below this one
  opc console --port 0 --store /data/store
  opc console --host 192.168.1.20              # for others on the network: the printed address carries a token

It shows arms, ranking, decisions, episodes and the audit log as they change. Stopping an arm needs no key;
whatever else a person decides there is signed with their own key. Ctrl-C ends it; the lab keeps running."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "console",
        help="show the lab in a browser: arms, ranking, decisions, episodes",
        description="Serve the lab's live page.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8640, help="port to listen on; 0: any free one (default: 8640)")
    for name, default in (
        ("store", "store"),
        ("scores", "scores/published"),
        ("deployment", "deployment"),
        ("candidates", "candidates"),
    ):
        parser.add_argument(f"--{name}", default=default, help=f"folder (default: {default})")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.checks import require_ros

    require_ros()
    from opc_ros.ros.console_node import main

    words = ["--ros-args"]
    for name in ("host", "port", "store", "scores", "deployment", "candidates"):
        value = getattr(arguments, name)
        words += ["-p", f"{name}:={json.dumps(value)}"]
    return main(words)
