"""`opc notify`: tell people when a request waits, a race ends or an arm holds."""

from __future__ import annotations

import argparse
import json

EXAMPLES = """examples:
  OPC_WEBHOOK=https://chat.example.org/hooks/abc opc notify --webhook slack --lab "arm farm"
  OPC_WEBHOOK=http://localhost:9000/opc opc notify --webhook json
  opc notify --desktop

It reports a request that waits for a person, one that ended, a new champion, a halt, and an arm that was stopped, held
or is in fault (at most once a minute per robot and kind). The address is read from the environment and never printed.
A JSON webhook gets {"format": "opc_ros.notice", "version": 1, "lab", "kind", "title", "text", "robot", "request_id"};
kind is request_waiting, request_ended, champion, halted or arm_held."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "notify",
        help="notify people when a request waits, a race ends or an arm holds",
        description="Watch the lab and notify a webhook or this desktop of what needs a person, until Ctrl-C.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--webhook", choices=("json", "slack"), help="POST to the address in $OPC_WEBHOOK, in this form"
    )
    parser.add_argument("--desktop", action="store_true", help="show notices on this desktop (needs notify-send)")
    parser.add_argument("--lab", default="lab", help="name of this lab in notices (default: lab)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from opc_ros.bringup.checks import require_ros

    require_ros()
    from opc_ros.ros.notifier_node import main

    parameters = {"webhook": arguments.webhook or "none", "desktop": arguments.desktop, "lab": arguments.lab}
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={json.dumps(value)}")]
    return main(["--ros-args", *words])
