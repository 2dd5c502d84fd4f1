from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from opc_ros.recording.free_space import FreeSpace


def test_it_reports_what_the_disk_has_and_notices_when_it_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    space = FreeSpace(folder, period_s=0.01)
    assert 0 < space.read() <= shutil.disk_usage(tmp_path).total
    folder.rmdir()

    def is_noticed() -> bool:
        try:
            space.read()
        except FileNotFoundError:
            return True
        return False

    deadline = time.monotonic() + 5
    while not is_noticed():
        assert time.monotonic() < deadline
    space.close()


def test_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FreeSpace(tmp_path / "nowhere")
