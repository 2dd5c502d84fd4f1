"""Keep freed memory for the next pass, and hand it back to the system after the last."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_TRIM_BYTES = 256 << 20  # what may lie free in each thread's arena
_MMAP_BYTES = 32 << 20  # the largest that glibc takes


def keep_freed_memory() -> None:
    """Tell glibc's allocator, where there is one, that the same large arrays will be asked for again.

    By default a thread gives the pages of every layer's output back when it is freed and faults them in anew for
    the next pass, which costs up to a third of small networks' time.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def release_freed_memory() -> None:
    """Hand back what glibc's allocator keeps: a program that scores every few minutes must not hold its peak."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
