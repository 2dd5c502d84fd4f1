"""`opc store label`, `exclude`, `restore` and `snapshot`: which episodes succeeded, and which are scored."""

from __future__ import annotations

import argparse
import getpass
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from opc_ros.cli.argument_types import some_text
from opc_ros.cli.store_arguments import Verbs, add_selection, add_verb, open_existing, read_selection
from opc_ros.cli.store_copies import restore_backup

Said = Literal["success", "failure", "none", "excluded"]
_WORDS: Mapping[str, Said] = {"success": "success", "failure": "failure", "unlabelled": "none", "excluded": "excluded"}

LABEL_EXAMPLES = """examples:
  opc store label arm1-000123 success --by ada
  opc store label arm1-000123 failure --note "slipped while lifting"
  opc store label arm1-000123 unlabelled --note "camera was covered, nobody can tell"

Labels are never overwritten: each is a new revision, and snapshots keep the one they were taken with."""

EXCLUDE_EXAMPLES = """examples:
  opc store exclude arm1-000123 arm1-000124 --reason "camera was knocked" --by ada
  opc store list --label-source excluded
  opc store show arm1-000123            # its label's history, with reasons
  opc store restore arm1-000123 --reason "only the light had changed"

`opc store restore --from BACKUP` is something else: it restores a whole backup, see `opc store backup --help`.
Nothing is deleted. Snapshots taken from now on leave an excluded episode out; earlier ones stay as they are."""

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
    label.add_argument("--note", default="")
    _add_person(label)
    label.set_defaults(run=run_label)

    for name, purpose in (
        ("exclude", "keep episodes out of snapshots, with a reason"),
        ("restore", "restore excluded episodes with their earlier labels, or a whole backup"),
    ):
        parser = add_verb(verbs, name, help=purpose, examples=EXCLUDE_EXAMPLES)
        parser.add_argument("episodes", nargs="+" if name == "exclude" else "*", metavar="episode")
        parser.add_argument("--reason", type=some_text, required=name == "exclude")
        if name == "restore":
            parser.add_argument("--from", dest="backup", metavar="BACKUP", help="restore a whole backup instead")
        _add_person(parser)
        parser.set_defaults(run=run_exclude, is_excluding=name == "exclude")

    snapshot = add_verb(
        verbs, "snapshot", help="freeze the set of labelled episodes to score on", examples=SNAPSHOT_EXAMPLES
    )
    snapshot.add_argument("--tag", type=some_text, metavar="NAME", help="a name to find it by; moves if it exists")
    group = snapshot.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list snapshots and tags instead")
    group.add_argument("--show", metavar="REF", help="show one: a digest, its beginning, or a tag")
    add_selection(snapshot)
    snapshot.set_defaults(run=run_snapshot)


def _add_person(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", default="", metavar="NAME", help="who says so (default: the user logged in)")
    parser.add_argument(
        "--keys", type=Path, default=Path("deployment/keys"), help="folder with people.yaml, if there is one"
    )
    parser.add_argument("--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh")


def run_label(arguments: argparse.Namespace) -> int:
    from opc_ros.episode import Label, LabelSource

    by, signature = _sign(arguments, arguments.episode, _WORDS[arguments.outcome], arguments.note)
    label = Label()
    if arguments.outcome != "unlabelled":
        label = Label(
            is_success=arguments.outcome == "success",
            source=LabelSource.PERSON,
            labeller=by or arguments.by or getpass.getuser(),
        )
    revision = open_existing(arguments).label(arguments.episode, label, note=arguments.note, signature=signature)
    if arguments.json:
        print(json.dumps({"episode": arguments.episode, "outcome": arguments.outcome, "revision": revision}))
    else:
        print(f"{arguments.episode}: {arguments.outcome}, revision {revision}")
    return 0


def run_exclude(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import StoreError
    from opc_ros.store.exclusion import exclude_episode, label_before_exclusion, restore_episode

    if not arguments.is_excluding and arguments.backup is not None:
        return restore_backup(arguments)
    if not arguments.episodes or not arguments.reason:
        raise StoreError("restore: names no episode or no --reason; `--from BACKUP` brings a whole backup back")
    store = open_existing(arguments)
    done = []
    for episode_id in arguments.episodes:
        said: Said = "excluded"
        if not arguments.is_excluding:
            said = _WORDS[label_before_exclusion(store, episode_id).outcome]
        signed_by, signature = _sign(arguments, episode_id, said, arguments.reason)
        by = signed_by or arguments.by or getpass.getuser()
        act = exclude_episode if arguments.is_excluding else restore_episode
        revision = act(store, episode_id, by=by, reason=arguments.reason, signature=signature)
        done.append({"episode": episode_id, "label": store.find(episode_id).label.outcome, "revision": revision})
        if not arguments.json:
            print(f"{episode_id}: {done[-1]['label']}, revision {revision}")
    if arguments.json:
        print(json.dumps(done, indent=2))
    return 0


def _sign(arguments: argparse.Namespace, episode_id: str, said: Said, note: str) -> tuple[str, str]:
    """In labs whose people have keys, sign as a labeller; returns their name and what they signed."""
    import time

    from opc_ros.deployment.people import load_people
    from opc_ros.deployment.signing import find_signer
    from opc_ros.deployment.statement import LabelBody, check_statement, sign_statement

    people = load_people(arguments.keys)
    if not people.people:
        return "", ""
    signs = find_signer(arguments.keys, arguments.key, arguments.by or "")
    body = LabelBody(episode_id, said, note)
    envelope = sign_statement("relabel", signs.person, body, signs.signer, time.time_ns())
    said_by = check_statement(envelope, ("relabel",), people, time.time_ns(), lambda nonce, until: True).person
    return said_by, envelope


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
