"""`opc candidate tag` and `untag`, and tags where candidates are listed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opc_ros.policies.candidate import Candidate


def add_tasks(tasks: Any, add_task: Any) -> None:
    tag = add_task(tasks, "tag", "tag a candidate, to find it again in lists and on the console", _tag)
    untag = add_task(tasks, "untag", "take tags off a candidate", _untag)
    for parser in (tag, untag):
        parser.add_argument("candidate", help="name, folder or beginning of an id")
        parser.add_argument("tags", nargs="+", metavar="TAG", help="letters, digits and . _ + -")


def read_tags(registry: Path) -> dict[str, tuple[str, ...]]:
    """Tags by candidate id."""
    from opc_ros.workflows.candidate_tags import CandidateTags

    return dict(CandidateTags(registry).read())


def with_tags(found: Sequence[Candidate], wanted: Sequence[str], tags: dict[str, tuple[str, ...]]) -> list[Candidate]:
    """The candidates that have every wanted tag."""
    return [one for one in found if set(wanted) <= set(tags.get(one.id, ()))]


def carry_tags(registry: Path, old_id: str, new_id: str) -> None:
    """Copy the tags of a candidate to its new name."""
    from opc_ros.workflows.candidate_tags import CandidateTags

    if found := read_tags(registry).get(old_id):
        CandidateTags(registry).add(new_id, found)


def _tag(arguments: argparse.Namespace) -> int:
    return _change(arguments, "add")


def _untag(arguments: argparse.Namespace) -> int:
    return _change(arguments, "remove")


def _change(arguments: argparse.Namespace, how: str) -> int:
    from opc_ros.policies.registry import CandidateRegistry
    from opc_ros.workflows.candidate_tags import CandidateTags

    registry = CandidateRegistry(arguments.candidates)
    found = registry.find(arguments.candidate)
    now = getattr(CandidateTags(registry.path), how)(found.id, arguments.tags)
    if arguments.json:
        print(json.dumps({"id": found.id, "tags": now}))
    else:
        print(f"{found.id[:12]}  {found.name}  {', '.join(now) or 'no tags'}")
    return 0
