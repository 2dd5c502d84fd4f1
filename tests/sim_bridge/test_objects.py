"""Object sets are named, disjoint and small enough for the gripper."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pybullet_data
import pytest

from opc_ros.errors import ConfigError
from sim_bridge.arm_model import OPEN_APERTURE_M
from sim_bridge.objects import OBJECT_SETS, object_numbers, read_vertices

DATA = Path(pybullet_data.getDataPath())


def test_no_object_is_in_two_sets() -> None:
    for one, other in itertools.combinations(OBJECT_SETS.values(), 2):
        assert not set(one) & set(other)
    assert all(len(set(numbers)) == 5 for numbers in OBJECT_SETS.values())


@pytest.mark.parametrize("number", [number for numbers in OBJECT_SETS.values() for number in numbers])
def test_every_object_has_a_side_that_fits_the_gripper(number: int) -> None:
    corners = read_vertices(DATA, number)
    axes = np.linalg.svd(corners - corners.mean(axis=0), full_matrices=False)[2]
    shortest, middle, longest = sorted(np.ptp(corners @ axes.T, axis=0))
    assert 0.015 < shortest <= middle < OPEN_APERTURE_M - 0.015
    assert longest < 0.1


def test_an_unknown_set_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'spoons': expected one of train, test, held_out"):
        object_numbers("spoons")
