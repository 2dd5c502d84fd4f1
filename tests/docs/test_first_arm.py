"""The commands in the first-arm tutorial for readers without an arm are run as printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from tests.docs.printed import find_blocks, find_commands

PAGE = "opc_ros/docs/tutorials/first-arm.md"


def test_the_offline_commands_work_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in find_blocks(PAGE) if block.language == "sh")
    for words in find_commands(block, "opc"):
        assert main(words) == 0, f"opc {shlex.join(words)}\n{capsys.readouterr().err}"
    assert "workspace: reached at all" in capsys.readouterr().out
