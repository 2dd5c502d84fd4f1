"""One thread for everything that waits for a disk, so that nothing else has to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]


class DiskThread:
    """Runs jobs in order. Jobs with data are limited in number; jobs that open and close episodes always fit."""

    def __init__(self, *, capacity: int, name: str = "disk") -> None:
        self.capacity = capacity
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_busy = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Number of waiting jobs."""
        return len(self._jobs)

    @property
    def is_busy(self) -> bool:
        return self._is_busy or bool(self._jobs)

    def offer(self, job: Job) -> bool:
        """Run a job later, or return False if too many are waiting."""
        with self._changed:
            if len(self._jobs) >= self.capacity:
                return False
            self._jobs.append(job)
            self._changed.notify()
            return True

    def submit(self, job: Job) -> None:
        """Run a job later, however many are waiting."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Run what is waiting, then end; returns False if the disk did not finish in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._is_closing:
                    self._changed.wait()
                if not self._jobs:
                    return
                self._is_busy = True
                job = self._jobs.popleft()
            try:
                job()
            finally:
                self._is_busy = False
