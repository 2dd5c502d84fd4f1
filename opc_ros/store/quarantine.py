"""Where incomplete and damaged episodes go, each with its reason; nothing in quarantine is ever scored."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.durable import PART, create_file, make_folder, sync_folder
from opc_ros.errors import StoreError
from opc_ros.store.layout import JSON, MCAP, StoreLayout, names_in
from opc_ros.store.sealed import encode_document, read_document


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Why something is in quarantine."""

    episode_id: str
    robot: str
    reason: str
    steps: int  # number of readable steps
    health: tuple[str, ...]
    files: tuple[str, ...]  # names, in the same folder as this document
    quarantined_ns: int


def move_to_quarantine(
    layout: StoreLayout,
    paths: tuple[Path, ...],
    *,
    episode_id: str,
    robot: str,
    reason: str,
    steps: int,
    health: tuple[str, ...],
    now_ns: int,
) -> Path:
    """Write the reason first, then move the files beside it; after a crash in between, `recover` still finds the files.

    Returns where the first of the files went, or the reason's document if there was none.
    """
    folder = layout.quarantine / robot
    make_folder(folder)
    for number in count(1):
        stem = episode_id if number == 1 else f"{episode_id}~{number}"
        names = tuple(f"{stem}{_suffix(path)}" for path in paths)
        entry = Quarantined(
            episode_id=episode_id,
            robot=robot,
            reason=reason,
            steps=steps,
            health=health,
            files=names,
            quarantined_ns=now_ns,
        )
        document = folder / f"{stem}{JSON}"
        if create_file(document, encode_document("quarantine", asdict(entry))):
            break
    for path, name in zip(paths, names, strict=True):
        path.rename(folder / name)
    sync_folder(folder)
    for parent in {path.parent for path in paths}:
        sync_folder(parent)
    return folder / names[0] if names else document


def list_quarantine(layout: StoreLayout) -> tuple[list[Quarantined], list[StoreError]]:
    """Everything in quarantine, and the reason files that are unreadable."""
    entries: list[Quarantined] = []
    errors: list[StoreError] = []
    for robot in names_in(layout.quarantine):
        for name in names_in(layout.quarantine / robot):
            path = layout.quarantine / robot / name
            if not name.endswith(JSON) or name.endswith(f".sidecar{JSON}"):
                continue
            try:
                entries.append(read_quarantined(path))
            except StoreError as error:
                errors.append(error)
    return entries, errors


def read_quarantined(path: Path) -> Quarantined:
    """Read one reason."""
    return parse_config(read_document(path, "quarantine"), Quarantined, where=str(path), error=StoreError)


def _suffix(path: Path) -> str:
    """The suffix for a moved file: a sidecar must not overwrite the reason beside it."""
    return f".sidecar{JSON}" if path.name.removesuffix(PART).endswith(JSON) else MCAP
