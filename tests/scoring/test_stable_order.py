"""Q values in order, as the slow and well-known way has it."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.scoring.stable_order import stable_order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [1, 7])
def test_equal_values_come_as_they_came_and_all_others_in_order(dtype: type, digits: int) -> None:
    values = np.round(np.random.default_rng(digits).standard_normal(5000), digits).astype(dtype)
    np.testing.assert_array_equal(stable_order(values), np.argsort(values, kind="stable"))


def test_both_zeros_are_one_value_and_the_extremes_are_where_they_belong() -> None:
    largest, least = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    values = np.array([0.0, -0.0, largest, -least, least, -largest, 0.0, -1.0], dtype=np.float32)
    before = values.copy()
    assert stable_order(values).tolist() == [5, 7, 3, 0, 1, 6, 4, 2]
    np.testing.assert_array_equal(values.view(np.int32), before.view(np.int32))  # what was given is left alone
