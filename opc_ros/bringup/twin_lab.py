"""Creates what a lab of twins needs on disk before its nodes start; for real arms a person does this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from opc_ros.bringup.system import read_folder


def prepare_twin_lab(arguments: Mapping[str, str], robots: Sequence[str], store: Path) -> tuple[str, ...]:
    """Create the store, the registry and the keys if they are missing; returns one line for each."""
    from opc_ros.deployment.keys import PRIVATE_NAME, create_keys, export_people, export_public_keys
    from opc_ros.deployment.signed_ranking import SCORER
    from opc_ros.deployment.signing import make_machine_key
    from opc_ros.store import open_store

    candidates = Path(read_folder(arguments, "candidates"))
    made = [f"made {folder}" for folder in (store, candidates) if not folder.is_dir()]
    open_store(store, create=True)
    candidates.mkdir(parents=True, exist_ok=True)
    keys = Path(read_folder(arguments, "deployment")) / "keys"
    if not (keys / PRIVATE_NAME).is_file():
        made.append(f"made {keys}, key {create_keys(keys).key_id}, which twins trust")
    made += prepare_people(arguments)
    make_machine_key(keys, SCORER, "scorer", keys)
    for robot in robots:
        trusted = Path(read_folder(arguments, "state")) / robot / "keys"
        is_new = not trusted.is_dir()  # a key that somebody deleted there stays deleted
        make_machine_key(trusted, robot, "robot", keys)
        if is_new:
            export_public_keys(keys, trusted)
        export_people(keys, trusted)
    return tuple(made)


def prepare_people(arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Create a key for the current user if the lab knows nobody yet, so that they can release a stop, for example."""
    from opc_ros.deployment.people import load_people
    from opc_ros.deployment.signing import PERSON_SUFFIX, login_name, make_person_key

    keys = Path(read_folder(arguments, "deployment")) / "keys"
    if load_people(keys).people:
        return ()
    signs = make_person_key(keys, login_name())
    return (f"made {keys / (signs.person + PERSON_SUFFIX)}, the key that `opc` signs with here",)
