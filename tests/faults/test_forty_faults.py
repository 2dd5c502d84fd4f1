"""Forty seeded faults at a moving twin, every kind at least once: each has its event, no hold is a motion, all rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from tests.faults.arm import Outcome, choose_kinds, judge_all, run_all, tabulate
from tests.faults.arm_kinds import KINDS
from tests.faults.arm_nodes import can_be_first
from tests.faults.arm_rig import ArmRig

pytestmark = pytest.mark.ros

RUNS, SEED = 40, 40
# `python -m tests.faults` measures how fast, on an otherwise idle machine; these bounds only distinguish an arm that
# was stopped from one whose motion ran out.
LONGEST_MS = 3000.0
USUAL_MS = 500.0


def test_whatever_breaks_the_arm_rests_where_it_was_and_says_why(tmp_path: Path, ros_domain: int) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, so no clock can be stepped")
    if not can_be_first():
        pytest.skip("no right to real-time scheduling, on which the guard's promises rest beside other work")
    outcomes: list[Outcome] = []
    rig = ArmRig(tmp_path)
    try:
        run_all(rig, choose_kinds(RUNS, SEED), SEED, [], outcomes.append)
    finally:
        rig.close()
    table = "\n".join(tabulate(outcomes))
    assert {outcome.kind for outcome in outcomes} == set(KINDS)
    assert judge_all(outcomes, LONGEST_MS) == [], table
    rests_ms = [outcome.rest_ms for outcome in outcomes if outcome.rest_ms is not None]
    assert len(rests_ms) == sum(KINDS[outcome.kind].has_arm for outcome in outcomes)
    assert np.median(rests_ms) < USUAL_MS, table
