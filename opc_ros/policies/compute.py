"""Which device and how many cores Q functions use."""

from __future__ import annotations

import os
import sys

# A GPU wants many frames at once; a core gains nothing from them and keeps every bit reproducible.
EPISODES_PER_PASS_ON_GPU = 16


def limit_threads_here(count: int) -> None:
    """Let torch use this many cores in the calling thread, so that threads side by side do not fight over them."""
    import torch

    torch.set_num_threads(count)


def choose_device() -> str:
    """The GPU when there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
