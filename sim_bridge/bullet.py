"""PyBullet without its output: otherwise importing, connecting and loading print to standard output."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def silence() -> Iterator[None]:
    """Discard what C code prints, to keep `--json` output clean."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in kept:
            os.dup2(nowhere, descriptor)
        yield
    finally:
        libc.fflush(None)
        for descriptor, original in kept.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(nowhere)


with silence():
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

__all__ = ["connect", "pybullet", "silence"]


def connect() -> Any:
    """A physics client of its own, without a window.

    Its broad phase keeps no history: Bullet's default one remembers where bodies were, so the same layout could play
    out differently after another one.
    """
    with silence():
        client = BulletClient(pybullet.DIRECT)
        client.resetSimulation(pybullet.RESET_USE_SIMPLE_BROADPHASE)
        return client
