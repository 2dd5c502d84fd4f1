"""Runs a candidate a few times as on an arm, and reports whether it meets its deadline on this machine."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ThoughtTooLong
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.q_function import Observations
from opc_ros.policies.worker.loader import shared_host
from opc_ros.task import find_task

_THOUGHTS = 5


@dataclass(frozen=True, slots=True)
class TrialThought:
    """How long choosing an action took, and how long it may take."""

    median_s: float | None  # None: one choice missed the deadline
    deadline_s: float

    @property
    def is_in_time(self) -> bool:
        return self.median_s is not None

    def describe(self) -> str:
        if self.median_s is None:
            return f"takes longer than {self.deadline_s:g} s: its episodes would be broken off"
        return f"{1000 * self.median_s:.1f} ms per action on this machine, in a process of its own"


def think_once(candidate: Candidate, *, allow_code: bool = False) -> TrialThought:
    """The median time over a few choices on a grey image."""
    task, (height, width) = (
        find_task(candidate.manifest.task, where=candidate.name),
        candidate.manifest.input.image_size,
    )
    images = np.full((1, height, width, 3), 128, dtype=np.uint8)
    seen = Observations(images=images, tools=np.array([task.usual_state()], dtype=np.float32))
    deadline_s = candidate.manifest.think_s
    took = []
    with closing(shared_host(allow_code=allow_code).load_policy(candidate, deadline_s=deadline_s)) as policy:
        for seed in range(_THOUGHTS):
            began = time.perf_counter()
            try:
                policy.decide_each(seen, seed=seed)
            except ThoughtTooLong:
                return TrialThought(None, deadline_s)
            took.append(time.perf_counter() - began)
    return TrialThought(statistics.median(took), deadline_s)
