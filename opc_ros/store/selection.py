"""Which episodes of a store are meant."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.episode import LabelSource, Outcome
from opc_ros.store.records import CommittedEpisode


@dataclass(frozen=True, slots=True)
class Selection:
    """Which episodes a snapshot or a list takes; an empty field leaves its question open."""

    robots: tuple[str, ...] = ()
    since_ns: int | None = None  # begun at this time or later
    until_ns: int | None = None  # begun before this time
    object_sets: tuple[str, ...] = ()
    behaviour_policies: tuple[str, ...] = ()
    label_sources: tuple[LabelSource, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    is_healthy: bool | None = None
    id_part: str = ""  # somewhere in the id

    def matches(self, episode: CommittedEpisode) -> bool:
        return (
            (not self.robots or episode.robot in self.robots)
            and (self.since_ns is None or episode.began_ns >= self.since_ns)
            and (self.until_ns is None or episode.began_ns < self.until_ns)
            and (not self.object_sets or episode.object_set in self.object_sets)
            and (not self.behaviour_policies or episode.behaviour_policy in self.behaviour_policies)
            and (not self.label_sources or episode.label.source in self.label_sources)
            and (not self.outcomes or episode.label.outcome in self.outcomes)
            and (self.is_healthy is None or self.is_healthy == (not episode.health))
            and self.id_part in episode.id
        )


EVERYTHING = Selection()
