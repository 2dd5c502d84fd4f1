"""Keeps freed memory for the next batch instead of returning it to the system."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's mallopt
_LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """Images and feature maps have the same size in every batch.

    For blocks of their size glibc calls mmap and munmap every time, and clearing the fresh pages takes a quarter of a
    training step. Other systems are left alone.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has no mallopt
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _LARGEST)
        mallopt(_TOP_PAD, 64 << 20)
