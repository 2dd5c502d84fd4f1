"""Configuration files are found from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.bringup.config_files import find_config
from opc_ros.errors import SetupError

CONFIG = Path(__file__).resolve().parents[2] / "config"


def test_a_file_that_is_there_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("config/gate.yaml") == CONFIG / "gate.yaml"
    assert find_config("gate.yaml") == CONFIG / "gate.yaml"
    (tmp_path / "gate.yaml").write_text("")
    assert find_config("gate.yaml") == tmp_path / "gate.yaml"


def test_another_folder_s_file_is_never_replaced_by_ours(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"elsewhere/gate\.yaml: no such file"):
        find_config(tmp_path / "elsewhere" / "gate.yaml")
