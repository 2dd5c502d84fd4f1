"""Look for recordings in validation stores in the background, for callers that must not wait."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from opc_ros.deployment.recordings import PendingResult
from opc_ros.errors import OpcError
from opc_ros.store import open_store

LOOK_EVERY_S = 1.0


class RecordingLook:
    """Answers from its last look, and looks again at most once a second; an unreadable store counts as empty."""

    def __init__(
        self,
        store_of: Callable[[str], Path],
        *,
        every_s: float = LOOK_EVERY_S,
        steady_s: Callable[[], float] | None = None,
    ) -> None:
        """`store_of` returns the store that a robot's recorder writes to."""
        self._store_of = store_of
        self._every_s = every_s
        self._steady_s = steady_s or time.monotonic
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recordings")
        self._looking: Future[dict[str, bool]] | None = None
        self._looked_s = float("-inf")
        self._found: Mapping[str, bool] = {}

    def close(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)

    def finish(self) -> None:
        """Wait for the current look."""
        if self._looking is not None:
            self._looking.result()

    def __call__(self, pending: Sequence[PendingResult]) -> Mapping[str, bool]:
        if self._looking is not None and self._looking.done():
            self._found, self._looking = self._looking.result(), None
        if self._looking is None and self._steady_s() - self._looked_s >= self._every_s:
            self._looked_s = self._steady_s()
            self._looking = self._reader.submit(self._look, tuple(pending))
        return self._found

    def _look(self, pending: Sequence[PendingResult]) -> dict[str, bool]:
        wanted: dict[Path, list[str]] = defaultdict(list)
        for each in pending:
            wanted[self._store_of(each.robot)].append(each.episode_id)
        return {episode_id: found for path, ids in wanted.items() for episode_id, found in _find(path, ids).items()}


def _find(path: Path, episode_ids: Sequence[str]) -> dict[str, bool]:
    try:
        with open_store(path) as store:
            store.catalogue.refresh()
            return {each: store.catalogue.locate(each, is_fresh=False) is not None for each in episode_ids}
    except (OpcError, OSError):
        return dict.fromkeys(episode_ids, False)
