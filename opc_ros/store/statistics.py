"""How many episodes a store has and how many succeeded, by robot and by behaviour policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.episode import LabelSource
from opc_ros.store.catalogue import Catalogue
from opc_ros.store.catalogue_index import Count, FolderFacts, count_rows
from opc_ros.store.paging import may_match
from opc_ros.store.segment import UNKNOWN
from opc_ros.store.selection import Selection


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts over a group of episodes."""

    episodes: int
    successes: int
    failures: int
    unlabelled: int  # waiting for a label
    excluded: int
    steps: int
    file_bytes: int
    unhealthy: int  # with at least one line in their health

    @property
    def success_rate(self) -> float | None:
        """Among labelled episodes; None if there are none."""
        labelled = self.successes + self.failures
        return self.successes / labelled if labelled else None

    @property
    def balance(self) -> float | None:
        """Share of the rarer outcome among labelled episodes: 0.5 is balanced, 0 means only one outcome."""
        labelled = self.successes + self.failures
        return min(self.successes, self.failures) / labelled if labelled else None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a store, with groups sorted by name."""

    total: LabelCounts
    by_robot: dict[str, LabelCounts]
    by_policy: dict[str, LabelCounts]
    by_object_set: dict[str, LabelCounts]
    by_label_source: dict[str, LabelCounts]


def tally_catalogue(catalogue: Catalogue, selection: Selection) -> Statistics:
    """Count the selected episodes; folders that are selected completely are counted without being opened."""
    counts: list[tuple[str, Count]] = []
    for facts in catalogue.folders():
        if not facts.episodes or not may_match(facts, selection):
            continue
        if _takes_whole(facts, selection):
            rows = [Count(*row) for row in facts.counts]
        else:
            segment = catalogue.segment(facts)
            rows = count_rows(segment, segment.matching(selection))
        counts += [(facts.robot, row) for row in rows]
    return Statistics(
        total=_tally([count for _, count in counts]),
        by_robot=_group(counts, lambda robot, count: robot),
        by_policy=_group(counts, lambda robot, count: count.policy),
        by_object_set=_group(counts, lambda robot, count: count.object_set),
        by_label_source=_group(counts, lambda robot, count: count.source),
    )


def _takes_whole(facts: FolderFacts, selection: Selection) -> bool:
    about_time = Selection(robots=selection.robots, since_ns=selection.since_ns, until_ns=selection.until_ns)
    is_about_time_only = selection == about_time
    is_since = selection.since_ns is None or facts.first_ns >= selection.since_ns
    is_until = selection.until_ns is None or facts.last_ns < selection.until_ns
    return is_about_time_only and is_since and is_until


def _group(counts: list[tuple[str, Count]], name: Callable[[str, Count], str]) -> dict[str, LabelCounts]:
    groups: dict[str, list[Count]] = {}
    for robot, count in counts:
        groups.setdefault(name(robot, count), []).append(count)
    return {key: _tally(groups[key]) for key in sorted(groups)}


def _tally(counts: list[Count]) -> LabelCounts:
    def episodes_with(is_success: int) -> int:
        return sum(count.episodes for count in counts if count.is_success == is_success)

    excluded = sum(count.episodes for count in counts if count.source == LabelSource.EXCLUDED)

    return LabelCounts(
        episodes=sum(count.episodes for count in counts),
        successes=episodes_with(1),
        failures=episodes_with(0),
        unlabelled=episodes_with(UNKNOWN) - excluded,
        excluded=excluded,
        steps=sum(count.steps for count in counts),
        file_bytes=sum(count.file_bytes for count in counts),
        unhealthy=sum(count.unhealthy for count in counts),
    )
