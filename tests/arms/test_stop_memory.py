"""A stop on disk."""

from __future__ import annotations

from pathlib import Path

from opc_ros.arms.stop_memory import StopMemory


def test_a_stop_is_remembered_across_restarts_until_it_is_forgotten(tmp_path: Path) -> None:
    StopMemory(tmp_path / "arm1").keep("smoke", 7)
    assert StopMemory(tmp_path / "arm1").recall() == ("smoke", 7)
    StopMemory(tmp_path / "arm1").forget()
    assert StopMemory(tmp_path / "arm1").recall() is None


def test_a_damaged_file_is_a_stop(tmp_path: Path) -> None:
    (tmp_path / "stop.json").write_bytes(b"\xff{")
    kept = StopMemory(tmp_path).recall()
    assert kept is not None
    assert kept[0].endswith("so it counts as a stop")
