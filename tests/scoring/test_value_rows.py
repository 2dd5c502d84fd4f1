from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.errors import QCacheError
from opc_ros.scoring import value_rows
from opc_ros.scoring.value_rows import RowsById, RowsInOrder, RowsOnDisk, gather_rows

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_few_values_are_one_array(tmp_path: Path) -> None:
    found = gather_rows(iter(ROWS), 3, tmp_path)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, ROWS)


@pytest.mark.parametrize("rows", [ROWS, np.arange(24, dtype=np.float32).reshape(3, 4, 2)])
def test_many_values_lie_in_a_file_without_a_name_and_come_back_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: np.ndarray
) -> None:
    monkeypatch.setattr(value_rows, "HELD", rows.size - 1)
    found = gather_rows(iter(rows), 3, tmp_path)
    assert isinstance(found, RowsOnDisk)
    assert list(tmp_path.iterdir()) == []
    assert (len(found), found.shape) == (3, rows.shape)
    for _ in range(2):
        np.testing.assert_array_equal(list(found), rows)
    with pytest.raises(IndexError):
        found[3]


def test_rows_that_do_not_fit_on_the_disk_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_rows, "HELD", 0)
    with pytest.raises(QCacheError, match=r"cannot hold 0\.0 GB of values while it ranks: No such file or directory"):
        gather_rows(iter(ROWS), 3, tmp_path / "nowhere")


def test_nobody_at_all_has_no_rows(tmp_path: Path) -> None:
    assert len(gather_rows(iter(()), 0, tmp_path)) == 0


def test_rows_are_found_by_id_and_in_any_order() -> None:
    by_id = RowsById(["b", "a", "c"], ROWS)
    assert list(by_id) == ["b", "a", "c"]
    np.testing.assert_array_equal(by_id["a"], ROWS[1])
    np.testing.assert_array_equal(list(RowsInOrder(by_id, ["c", "b"])), ROWS[[2, 0]])
