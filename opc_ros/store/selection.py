"""Which episodes of a store to select."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.episode import LabelSource, Outcome


@dataclass(frozen=True, slots=True)
class Selection:
    """Which episodes a snapshot or a list takes; an empty field does not restrict the selection."""

    robots: tuple[str, ...] = ()
    since_ns: int | None = None  # began at this time or later
    until_ns: int | None = None  # began before this time
    object_sets: tuple[str, ...] = ()
    behaviour_policies: tuple[str, ...] = ()
    label_sources: tuple[LabelSource, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    is_healthy: bool | None = None
    id_part: str = ""  # part of the id, at any position


EVERYTHING = Selection()
