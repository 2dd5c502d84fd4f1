"""A process that works until it is killed, and records in a file what it has done so far."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

BEGIN_S = 120.0


class KilledProcess:
    """Started again after each kill; `work` gets its arguments and the file, to which it writes `begun` first."""

    def __init__(self, work: Callable[..., None], arguments: tuple[Any, ...], told: Path) -> None:
        self._work = work
        self._arguments = arguments
        self._told = told
        self._process: BaseProcess | None = None

    def start(self, *more: Any) -> None:
        """Returns once it is working; `more` goes before the file."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["opc_ros.store.bucket_shards", "tests.store.grasps"])
        before = self._begun()
        arguments = (*self._arguments, *more, str(self._told))
        self._process = context.Process(target=_run, args=(self._work, arguments, dict(os.environ)), daemon=True)
        self._process.start()
        waiting = threading.Event()
        for _ in range(int(BEGIN_S / 0.02)):
            if self._begun() > before:
                return
            assert self._process.is_alive(), f"{self._told.name}: ended by itself with {self._process.exitcode}"
            waiting.wait(0.02)
        raise AssertionError(f"{self._told.name}: has not begun within {BEGIN_S} s")

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL, (
            f"{self._told.name}: ended by itself with {self._process.exitcode}"
        )

    def lines(self) -> list[str]:
        return self._told.read_text().splitlines() if self._told.exists() else []

    def _begun(self) -> int:
        return self.lines().count("begun")


def _run(work: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    """The server it is forked from may have been started with another environment."""
    os.environ.clear()
    os.environ.update(environment)
    work(*arguments)
