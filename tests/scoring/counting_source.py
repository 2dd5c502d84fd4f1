"""Twelve episodes to score, and a source of episodes that counts its reads."""

from __future__ import annotations

from opc_ros.episode import Episode
from opc_ros.errors import EpisodeDamaged
from opc_ros.scoring.source import EpisodeRef, MemorySource
from tests.policies.making import make_episodes

EPISODES = make_episodes(12)


class CountingSource(MemorySource):
    """Counts reads, and returns a damaged episode where told to."""

    def __init__(self, episodes: list[Episode], damaged: str = "") -> None:
        super().__init__(episodes)
        self.reads: list[str] = []
        self._damaged = damaged

    def read(self, ref: EpisodeRef) -> Episode:
        self.reads.append(ref.id)
        if ref.id == self._damaged:
            raise EpisodeDamaged(f"episode {ref.id}: bytes are not what was committed")
        return super().read(ref)
