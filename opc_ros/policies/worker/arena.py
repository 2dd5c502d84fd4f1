"""Memory shared by two processes: states and actions go in, actions and values come out, without extra copies."""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass

import numpy as np

from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import Observations
from opc_ros.task import find_task

_USUAL_BYTES = 64 << 20  # of address space; only written pages take memory
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies in it, for one image size, one task and a given number of candidates."""

    image_size: tuple[int, int]
    state_size: int
    action_size: int
    candidates: int = 1

    @classmethod
    def of(cls, manifest: CandidateManifest, candidates: int = 1) -> Layout:
        task = find_task(manifest.task, where=manifest.name)
        return cls(manifest.input.image_size, len(task.state), len(task.actions), candidates)

    @property
    def image_bytes(self) -> int:
        return self.image_size[0] * self.image_size[1] * 3

    @property
    def row_bytes(self) -> int:
        return self.image_bytes + 4 * (self.state_size + 2 * self.action_size + self.candidates)

    @property
    def total_bytes(self) -> int:
        return max(_USUAL_BYTES, 2 * self.row_bytes + mmap.PAGESIZE)

    @property
    def rows_at_once(self) -> int:
        return (self.total_bytes - mmap.PAGESIZE) // self.row_bytes


class Arena:
    """One mapping of the shared memory; both sides compute the same addresses."""

    def __init__(self, descriptor: int, layout: Layout) -> None:
        self._memory = mmap.mmap(descriptor, layout.total_bytes)
        self._layout = layout
        self._state, self._action = layout.state_size, layout.action_size

    def close(self) -> None:
        self._memory.close()

    def images(self, rows: int) -> np.ndarray:
        height, width = self._layout.image_size
        return self._view(0, (rows, height, width, 3), np.uint8, rows)

    def tools(self, rows: int) -> np.ndarray:
        return self._view(0, (rows, self._state), np.float32, rows, self._state)

    def actions(self, rows: int) -> np.ndarray:
        """The actions to evaluate, (rows, A)."""
        return self._view(self._state, (rows, self._action), np.float32, rows, self._action)

    def chosen(self, rows: int) -> np.ndarray:
        """The actions that were chosen, (rows, A)."""
        return self._view(self._state + self._action, (rows, self._action), np.float32, rows, self._action)

    def values(self, rows: int, candidates: int = 1) -> np.ndarray:
        """The candidates' Q of the rows, (candidates, rows)."""
        return self._view(self._state + 2 * self._action, (candidates, rows), np.float32, rows, 1)

    def observations(self, rows: int) -> Observations:
        return Observations(images=self.images(rows), tools=self.tools(rows))

    def _view(self, before: int, shape: tuple[int, ...], kind: type, rows: int, width: int | None = None) -> np.ndarray:
        """Images come first, then the numbers of all rows; `before` is how many numbers of each row come earlier."""
        if width is None:
            return np.ndarray(shape, dtype=kind, buffer=self._memory)
        start = -(-self._layout.image_bytes * rows // 8) * 8 + 4 * before * rows
        return np.ndarray(shape, dtype=kind, buffer=self._memory, offset=start)


def make_arena_file(layout: Layout) -> int:
    """A descriptor of fresh shared memory whose size can no longer be changed by anybody."""
    descriptor = os.memfd_create("opc-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, layout.total_bytes)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor
