"""Reference pages say what the code does now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

ROOT = Path(__file__).resolve().parents[2]


def test_reference_pages_are_up_to_date() -> None:
    command = [sys.executable, "-m", "opc_ros.docs.generate", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stderr
