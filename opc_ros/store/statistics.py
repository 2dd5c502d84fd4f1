"""How many episodes a store holds, how many succeeded, by robot and by behaviour policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opc_ros.store.records import CommittedEpisode


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over a group of episodes."""

    episodes: int
    successes: int
    failures: int
    unlabelled: int
    steps: int
    file_bytes: int
    unhealthy: int  # with at least one line in their health

    @property
    def success_rate(self) -> float | None:
        """Among labelled episodes; None where there are none."""
        labelled = self.successes + self.failures
        return self.successes / labelled if labelled else None

    @property
    def balance(self) -> float | None:
        """Share of the rarer outcome among labelled episodes: 0.5 is balanced, 0 means one outcome only."""
        labelled = self.successes + self.failures
        return min(self.successes, self.failures) / labelled if labelled else None


@dataclass(frozen=True, slots=True)
class Statistics:
    """A store's tallies, groups sorted by name."""

    total: Tally
    by_robot: dict[str, Tally]
    by_policy: dict[str, Tally]
    by_object_set: dict[str, Tally]
    by_label_source: dict[str, Tally]


def tally_store(episodes: Iterable[CommittedEpisode]) -> Statistics:
    listed = list(episodes)
    return Statistics(
        total=_tally(listed),
        by_robot=_group(listed, lambda episode: episode.robot),
        by_policy=_group(listed, lambda episode: episode.behaviour_policy),
        by_object_set=_group(listed, lambda episode: episode.object_set),
        by_label_source=_group(listed, lambda episode: episode.label.source.value),
    )


def _group(episodes: list[CommittedEpisode], name: Callable[[CommittedEpisode], str]) -> dict[str, Tally]:
    groups: dict[str, list[CommittedEpisode]] = {}
    for episode in episodes:
        groups.setdefault(name(episode), []).append(episode)
    return {key: _tally(groups[key]) for key in sorted(groups)}


def _tally(episodes: list[CommittedEpisode]) -> Tally:
    outcomes = [episode.label.is_success for episode in episodes]
    return Tally(
        episodes=len(episodes),
        successes=outcomes.count(True),
        failures=outcomes.count(False),
        unlabelled=outcomes.count(None),
        steps=sum(episode.steps for episode in episodes),
        file_bytes=sum(episode.file_bytes for episode in episodes),
        unhealthy=sum(bool(episode.health) for episode in episodes),
    )
