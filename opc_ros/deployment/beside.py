"""Compute in the background for a loop that must not wait and uses the newest answer available."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Beside(Generic[K, V]):
    """Answers one question at a time in a background thread; a question asked meanwhile waits its turn."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._ready: tuple[K, V] | None = None
        self._running: tuple[K, Future[V]] | None = None

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask(self, key: K, compute: Callable[[], V], patience_s: float | None = None) -> tuple[K, V] | None:
        """The answer for `key` and the key itself, or after `patience_s` the newest answer with its own key, if any.

        `compute` must be a function of `key` alone. An exception in it is raised here, once.
        """
        while True:
            with self._lock:
                self._collect()
                if self._ready is not None and self._ready[0] == key:
                    return self._ready
                if self._running is None:
                    self._running = (key, self._thread.submit(compute))
                future = self._running[1]
            wait([future], timeout=patience_s)
            with self._lock:
                self._collect()
                if patience_s is not None:
                    return self._ready

    def _collect(self) -> None:
        if self._running is not None and self._running[1].done():
            key, future = self._running
            self._running = None
            self._ready = (key, future.result())
