"""`opc people`: whose signatures count, and for what."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.deployment.people import Role

EXAMPLES = """examples:
  ssh-keygen -t ed25519 -f ada -N ''
  opc people add ada --key ada.pub --role requester --role approver
  opc people add ada --role operator
  opc people list
  opc people remove ada

Roles: requester asks for robot time, approver decides on requests, labeller relabels episodes, operator resumes halted
robots, signs behaviour permits and accepts clocks. Stopping and halting need no role and no signature.
`opc keys export` gives robots this list too."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "people",
        help="say whose signatures count, and for what",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add a person, or a key or role to one")
    add.add_argument("name")
    add.add_argument("--key", type=Path, help="Ed25519 public key file, as ssh-keygen writes it, or PEM")
    add.add_argument(
        "--role",
        action="append",
        default=[],
        choices=("requester", "approver", "labeller", "operator", "scorer", "robot"),
        help="may be given several times; default for a new person: requester",
    )
    remove = actions.add_parser("remove", help="trust nothing this person signs from now on")
    remove.add_argument("name")
    show = actions.add_parser("list", help="show people, roles and keys")
    show.add_argument("--json", action="store_true", help="for machines")
    for action, run in ((add, run_add), (remove, run_remove), (show, run_list)):
        action.add_argument("--keys", type=Path, default=Path("deployment/keys"), help="keys folder of the deployment")
        action.set_defaults(run=run)


def run_add(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.people import add_person, load_people, parse_public_key, read_public_key
    from opc_ros.errors import DeploymentError

    known = load_people(arguments.keys).people.get(arguments.name)
    if arguments.key is None and known is None:
        raise DeploymentError(f"{arguments.name}: give a new person's public key with --key FILE")
    key = read_public_key(arguments.key) if arguments.key else parse_public_key(known.keys[0])  # type: ignore[union-attr]
    roles: list[Role] = arguments.role or ([] if known else ["requester"])
    person = add_person(arguments.keys, arguments.name, key, roles)
    print(f"{arguments.name}: {', '.join(person.roles)}; {len(person.keys)} key{'s' * (len(person.keys) > 1)}")
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.people import remove_person

    remove_person(arguments.keys, arguments.name)
    print(f"{arguments.name} is no longer trusted; `opc keys export` tells the robots")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.people import load_people

    people = load_people(arguments.keys).people
    if arguments.json:
        print(
            json.dumps(
                {name: {"roles": each.roles, "key_ids": list(each.public_keys())} for name, each in people.items()}
            )
        )
        return 0
    for name, person in people.items():
        print(f"{name:<16} {', '.join(person.roles):<44} {' '.join(person.public_keys())}")
    if not people:
        print(f"nobody yet in {arguments.keys}; `opc people add NAME --key FILE.pub`")
    return 0
