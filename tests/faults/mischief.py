"""Faults for a running lab: kill -9, processes cut off, disks filled, clocks stepped."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.crew import Crew

KINDS = ("kill", "cut off", "fill the disk", "step a clock")
WEIGHTS = (70, 12, 8, 10)
DISK_MB = 4096  # scripted arms on an idle machine record a megabyte a second
SECOND_NS = 1_000_000_000
# A step back of any size is waited out. A step ahead beyond the allowed clock difference needs a person to accept it,
# so here it is a small one.
LARGEST_STEP_AHEAD_S = 4.0
LARGEST_STEP_BACK_S = 7200.0


class Clocks:
    """Each process's wall clock, which a preloaded shim shifts; without a compiler no clock can be stepped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._shim = folder / "clock_shim.so"
        source = Path(__file__).with_name("clock_shim.c")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._shim), str(source), "-ldl"]
        with contextlib.suppress(OSError):
            subprocess.run(command, capture_output=True, check=False)

    @property
    def can_step(self) -> bool:
        return self._shim.is_file()

    def environment(self, name: str) -> dict[str, str]:
        if not self.can_step:
            return {}
        if not self._path(name).exists():
            self.step(name, 0.0)
        return {"LD_PRELOAD": str(self._shim), "CLOCK_OFFSET_FILE": str(self._path(name))}

    def step(self, name: str, seconds: float) -> None:
        with self._path(name).open("r+b" if self._path(name).exists() else "w+b") as file:
            file.write(struct.pack("q", round(seconds * SECOND_NS)))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name.replace('/', '.')}.offset"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own for the lab, if we may mount one; returns whether we could."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "opc_fleet", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True)


class Mischief:
    """One fault after the other, each drawn from its own seed."""

    def __init__(self, crew: Crew, clocks: Clocks, folder: Path, *, can_fill: bool) -> None:
        self._crew = crew
        self._clocks = clocks
        self._folder = folder
        self._allowed = {"kill": True, "cut off": True, "fill the disk": can_fill, "step a clock": clocks.can_step}

    def start(self, name: str) -> None:
        self._crew.start(name, self._clocks.environment(name))

    def do(self, rng: random.Random) -> tuple[str, str]:
        """One fault and its end; returns a description."""
        kind = rng.choices(KINDS, WEIGHTS)[0]
        kind = kind if self._allowed[kind] else "kill"
        running = sorted(self._crew.pids())
        name = rng.choice(["scheduler"] * max(1, len(running) // 4) + running)
        if name not in running:
            name = rng.choice(running)
        if kind == "kill":
            self._crew.kill(name)
            time.sleep(rng.choice((0.0, 0.0, rng.uniform(0.0, 3.0), rng.uniform(0.0, 10.0))))
            self.start(name)
        elif kind == "cut off":
            self._crew.signal(name, signal.SIGSTOP)
            time.sleep(rng.uniform(0.5, 12.0))
            self._crew.signal(name, signal.SIGCONT)
        elif kind == "fill the disk":
            name = "all"
            self._fill(rng.uniform(1.0, 6.0))
        else:
            step_s = rng.uniform(-LARGEST_STEP_BACK_S, LARGEST_STEP_AHEAD_S)
            self._clocks.step(name, step_s)
            time.sleep(rng.uniform(0.5, 6.0))
            self._clocks.step(name, 0.0)
        return kind, name.rpartition("/")[2]

    def _fill(self, seconds: float) -> None:
        filler = self._folder / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for size in (1 << 20, 1 << 14):
                    with contextlib.suppress(OSError):
                        while True:
                            file.write(bytes(size))
            time.sleep(seconds)
        finally:
            filler.unlink(missing_ok=True)
