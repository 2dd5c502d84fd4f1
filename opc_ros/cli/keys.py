"""`opc keys`: the key pair that signs permits and audit log lines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """examples:
  opc keys create deployment/keys
  opc keys list deployment/keys
  opc keys create deployment/keys --for scorer            # for a deployment from before scorers signed
  opc keys create robots/arm1/keys --for arm1             # on the robot; then opc people add arm1 --role robot
  opc keys export deployment/keys /mnt/arm1/keys

The private key stays where the scheduler runs. Robots need only the public part; a robot stops trusting a key
as soon as its *.public.pem is deleted there."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "keys",
        help="make the key pair that signs permits, and give its public part to robots",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a key pair")
    create.add_argument("folder", type=Path)
    create.add_argument(
        "--for",
        dest="machine",
        default="",
        metavar="scorer|ROBOT",
        help="only the key of the scorer, or of a robot; default: the scheduler's and the scorer's",
    )
    create.set_defaults(run=run_create)
    show = actions.add_parser("list", help="show the public keys of a folder")
    show.add_argument("folder", type=Path)
    show.add_argument("--json", action="store_true", help="for machines")
    show.set_defaults(run=run_list)
    export = actions.add_parser("export", help="copy the public keys for a robot")
    export.add_argument("folder", type=Path)
    export.add_argument("to", type=Path)
    export.set_defaults(run=run_export)


def run_create(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.keys import create_keys
    from opc_ros.deployment.signing import make_machine_key

    if not arguments.machine:
        signer = create_keys(arguments.folder)
        print(f"key {signer.key_id} in {arguments.folder}; give robots its public part with `opc keys export`")
    name = arguments.machine or "scorer"
    made = make_machine_key(arguments.folder, name, "scorer" if name == "scorer" else "robot", arguments.folder)
    print(f"key {made.key_id} of {name} in {arguments.folder}")
    if name != "scorer":
        print(f"where the scheduler runs: opc people add {name} --key {arguments.folder / name}.pub --role robot")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.keys import PRIVATE_NAME, load_trusted_keys

    key_ids = list(load_trusted_keys(arguments.folder))
    has_private = (arguments.folder / PRIVATE_NAME).is_file()
    if arguments.json:
        print(json.dumps({"key_ids": key_ids, "has_private": has_private}))
        return 0
    for key_id in key_ids:
        print(key_id)
    print("with the private key: permits can be signed here" if has_private else "public keys only")
    return 0


def run_export(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.keys import export_public_keys

    for path in export_public_keys(arguments.folder, arguments.to):
        print(path)
    return 0
