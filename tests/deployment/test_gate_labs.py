"""Asking the gate again and again does not let a bad candidate through; `gate_labs` does the same at length."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.ranking.synthetic_labs import draw_labs
from tests.deployment.gate_labs import passes

GATE = Path(__file__).resolve().parents[2] / "config" / "gate.yaml"


def test_a_bad_candidate_hardly_ever_passes_in_25_looks() -> None:
    """The hardest labs there are: one star among equals, and scores that say nothing."""
    rng = np.random.default_rng(0)
    labs = draw_labs("one star", 0.0, 16, rng)
    ever = passes(labs, load_config(GATE, GateRules), 20, rng)
    is_bad = labs.rates < labs.rates.max(axis=1, keepdims=True) - 0.15
    assert (ever & is_bad).any(axis=1).sum() <= 3  # at 5 %, more than three of sixteen happen once in 150 times
