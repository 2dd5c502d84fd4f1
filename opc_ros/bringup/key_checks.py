"""Which keys a deployment lacks, and the commands that create them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opc_ros.deployment.people import load_people
from opc_ros.deployment.signed_ranking import SCORER


def missing_keys(deployment: Path, robots: Path) -> Iterator[tuple[str, str]]:
    """What is missing and what to do about it; nothing for a folder without a deployment."""
    keys = deployment / "keys"
    if not keys.is_dir():
        return
    people = load_people(keys).people
    if not any(SCORER in person.roles for person in people.values()):
        yield "the scorer has no key", f"opc keys create {keys} --for scorer; opc ranking publish newest"
    if not any("approver" in person.roles for person in people.values()):
        add = f"opc people add NAME --key me.pub --role requester --role approver --role operator --keys {keys}"
        yield "nobody may approve", f"ssh-keygen -t ed25519 -f me; {add}"
    for folder in sorted(robots.glob("*/keys")):
        robot = folder.parent.name
        if robot not in people:
            create = f"opc keys create {folder} --for {robot}"
            yield (
                f"robot {robot} has no key that is known",
                f"{create}; opc people add {robot} --key {folder / robot}.pub --role robot --keys {keys}",
            )
