"""Keeps freed memory for the next batch instead of giving it back to the system."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's mallopt
_LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """Images and feature maps of every batch are as large as the last one's.

    glibc maps and unmaps blocks of their size anew each time, and clearing fresh pages then takes a quarter of a
    training step. Other systems are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _LARGEST)
        mallopt(_TOP_PAD, 64 << 20)
