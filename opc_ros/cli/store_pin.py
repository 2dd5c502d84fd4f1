"""`opc store label` and `snapshot`: who says what succeeded, and which episodes a score is computed on."""

from __future__ import annotations

import argparse
import getpass
import json
from pathlib import Path
from typing import Any

from opc_ros.cli.argument_types import some_text
from opc_ros.cli.store_arguments import Verbs, add_selection, add_verb, open_existing, read_selection

LABEL_EXAMPLES = """examples:
  opc store label arm1-000123 success --by ada
  opc store label arm1-000123 failure --note "slipped while lifting"
  opc store label arm1-000123 unlabelled --note "camera was covered, nobody can tell"

Labels are never overwritten: each is a new revision, and snapshots keep the one they were taken with."""

SNAPSHOT_EXAMPLES = """examples:
  opc store snapshot --tag week-46
  opc store snapshot --robot arm1 --robot arm2 --label-source person
  opc store snapshot --list
  opc store snapshot --show week-46

A snapshot is named by the sha256 of its content: the same episodes with the same labels always have the same name."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    label = add_verb(verbs, "label", help="say whether an episode succeeded", examples=LABEL_EXAMPLES)
    label.add_argument("episode")
    label.add_argument("outcome", choices=("success", "failure", "unlabelled"))
    label.add_argument("--by", default="", metavar="NAME", help="who says so (default: the user logged in)")
    label.add_argument("--note", default="")
    label.add_argument("--keys", type=Path, default=Path("deployment/keys"), help="where people.yaml lies, if anywhere")
    label.add_argument("--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh")
    label.set_defaults(run=run_label)

    snapshot = add_verb(verbs, "snapshot", help="fix which labelled episodes to score on", examples=SNAPSHOT_EXAMPLES)
    snapshot.add_argument("--tag", type=some_text, metavar="NAME", help="a name to find it by; moves if it exists")
    group = snapshot.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list snapshots and tags instead")
    group.add_argument("--show", metavar="REF", help="show one: a digest, its beginning, or a tag")
    add_selection(snapshot)
    snapshot.set_defaults(run=run_snapshot)


def run_label(arguments: argparse.Namespace) -> int:
    from opc_ros.episode import Label, LabelSource

    by = _sign(arguments)
    label = Label()
    if arguments.outcome != "unlabelled":
        label = Label(
            is_success=arguments.outcome == "success",
            source=LabelSource.PERSON,
            labeller=by or arguments.by or getpass.getuser(),
        )
    revision = open_existing(arguments).label(arguments.episode, label, note=arguments.note)
    if arguments.json:
        print(json.dumps({"episode": arguments.episode, "outcome": arguments.outcome, "revision": revision}))
    else:
        print(f"{arguments.episode}: {arguments.outcome}, revision {revision}")
    return 0


def _sign(arguments: argparse.Namespace) -> str:
    """Where a lab's people have keys, a labeller signs; gives their name."""
    import time

    from opc_ros.deployment.people import load_people
    from opc_ros.deployment.signing import find_signer
    from opc_ros.deployment.statement import LabelBody, check_statement, sign_statement

    people = load_people(arguments.keys)
    if not people.people:
        return ""
    signs = find_signer(arguments.keys, arguments.key, arguments.by or "")
    body = LabelBody(
        arguments.episode, {"unlabelled": "none"}.get(arguments.outcome, arguments.outcome), arguments.note
    )
    envelope = sign_statement("relabel", signs.person, body, signs.signer, time.time_ns())
    return check_statement(envelope, ("relabel",), people, time.time_ns(), lambda nonce, until: True).person


def run_snapshot(arguments: argparse.Namespace) -> int:
    store = open_existing(arguments)
    if arguments.list:
        return _list(arguments)
    if arguments.show:
        snapshot = store.snapshot(arguments.show)
    else:
        snapshot = store.take_snapshot(read_selection(arguments), tag=arguments.tag or "")
    if arguments.json:
        entries = [entry._asdict() for entry in snapshot.entries]
        print(json.dumps({"id": snapshot.id, "successes": snapshot.successes, "entries": entries}, indent=2))
        return 0
    if arguments.show:
        for entry in snapshot.entries:
            outcome = "success" if entry.is_success else "failure"
            print(f"{entry.episode_id}  {entry.robot}  {outcome}  revision {entry.label_revision}")
    print(f"{snapshot.id}  {len(snapshot.entries)} episodes, {snapshot.successes} successes")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    store = open_existing(arguments)
    tags = store.tags()
    found: list[dict[str, Any]] = []
    for snapshot_id in store.snapshots():
        tagged = sorted(tag for tag, target in tags.items() if target == snapshot_id)
        snapshot = store.snapshot(snapshot_id)
        found.append(
            {"id": snapshot_id, "tags": tagged, "episodes": len(snapshot.entries), "successes": snapshot.successes}
        )
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    for item in found:
        counts = f"{item['episodes']} episodes, {item['successes']} successes"
        print("  ".join([item["id"], counts, *item["tags"]]))
    return 0
