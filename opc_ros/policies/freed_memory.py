"""Keeps freed memory for the next pass, and returns it to the system after the last one."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_TRIM_BYTES = 256 << 20  # how much may lie unused in each thread's arena
_MMAP_BYTES = 32 << 20  # the largest that glibc accepts


def keep_freed_memory() -> None:
    """Tell glibc's allocator, if that is the one in use, that the same large arrays will be needed again.

    By default a thread returns the pages of every layer's output when it is freed and faults in new ones for the next
    pass, which costs up to a third of the time of small networks.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has no mallopt
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def release_freed_memory() -> None:
    """Return what glibc's allocator keeps: a program that scores every few minutes must not hold its peak."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
