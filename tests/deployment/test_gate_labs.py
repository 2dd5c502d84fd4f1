"""Asking the gate again and again does not let a bad candidate through; `gate_labs` is the long version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.bringup.lab import load_scheduler_rules
from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.ranking.synthetic_labs import draw_labs
from tests.deployment.gate_labs import passes

CONFIG = Path(__file__).resolve().parents[2] / "config"


def test_a_bad_candidate_hardly_ever_passes_in_25_looks() -> None:
    """The hardest labs: one star among equals, and scores that say nothing."""
    rng = np.random.default_rng(0)
    scheduler = load_scheduler_rules(CONFIG / "scheduler.yaml")
    labs = draw_labs("one star", 0.0, 16, rng)
    ever = passes(labs, load_config(CONFIG / "gate.yaml", GateRules), scheduler, 20, rng)
    is_bad = labs.rates < labs.rates.max(axis=1, keepdims=True) - 0.15
    assert (ever & is_bad).any(axis=1).sum() <= 3  # at 5 %, more than three of sixteen happen once in 150 times


@pytest.mark.parametrize(
    ("scheduler", "gate"),
    [("scheduler", "gate"), ("scheduler_twin", "gate_demo"), ("scheduler_demo", "gate_demo")],
)
def test_exploration_uses_the_gates_tolerance(scheduler: str, gate: str) -> None:
    asked = load_config(CONFIG / f"{gate}.yaml", GateRules).within.tolerance
    assert load_scheduler_rules(CONFIG / f"{scheduler}.yaml").exploration_tolerance == asked
