"""Memory that two processes share: states and actions go in, actions and values come out, nothing is copied twice."""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass

import numpy as np

from opc_ros.grasp import ACTION_SIZE, TOOL_SIZE
from opc_ros.policies.q_function import Observations

_USUAL_BYTES = 64 << 20  # of address space; only what is written takes memory
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie for states of one image size."""

    image_size: tuple[int, int]

    @property
    def image_bytes(self) -> int:
        return self.image_size[0] * self.image_size[1] * 3

    @property
    def row_bytes(self) -> int:
        return self.image_bytes + 4 * (TOOL_SIZE + ACTION_SIZE + ACTION_SIZE + 1)

    @property
    def total_bytes(self) -> int:
        return max(_USUAL_BYTES, 2 * self.row_bytes + mmap.PAGESIZE)

    @property
    def rows_at_once(self) -> int:
        return (self.total_bytes - mmap.PAGESIZE) // self.row_bytes


class Arena:
    """One mapping of the shared memory; both sides compute the same places."""

    def __init__(self, descriptor: int, layout: Layout) -> None:
        self._memory = mmap.mmap(descriptor, layout.total_bytes)
        self._layout = layout

    def close(self) -> None:
        self._memory.close()

    def images(self, rows: int) -> np.ndarray:
        height, width = self._layout.image_size
        return self._view(0, (rows, height, width, 3), np.uint8, rows)

    def tools(self, rows: int) -> np.ndarray:
        return self._view(0, (rows, TOOL_SIZE), np.float32, rows, TOOL_SIZE)

    def actions(self, rows: int) -> np.ndarray:
        """What is asked about, (rows, 8)."""
        return self._view(TOOL_SIZE, (rows, ACTION_SIZE), np.float32, rows, ACTION_SIZE)

    def chosen(self, rows: int) -> np.ndarray:
        """What was chosen, (rows, 8)."""
        return self._view(TOOL_SIZE + ACTION_SIZE, (rows, ACTION_SIZE), np.float32, rows, ACTION_SIZE)

    def values(self, rows: int) -> np.ndarray:
        return self._view(TOOL_SIZE + 2 * ACTION_SIZE, (rows,), np.float32, rows, 1)

    def observations(self, rows: int) -> Observations:
        return Observations(images=self.images(rows), tools=self.tools(rows))

    def _view(self, before: int, shape: tuple[int, ...], kind: type, rows: int, width: int | None = None) -> np.ndarray:
        """Images first, then the numbers of all rows; `before` says how many numbers of each row lie in front."""
        if width is None:
            return np.ndarray(shape, dtype=kind, buffer=self._memory)
        start = -(-self._layout.image_bytes * rows // 8) * 8 + 4 * before * rows
        return np.ndarray(shape, dtype=kind, buffer=self._memory, offset=start)


def make_arena_file(layout: Layout) -> int:
    """A descriptor of fresh shared memory whose size nobody can change any more."""
    descriptor = os.memfd_create("opc-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, layout.total_bytes)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor
