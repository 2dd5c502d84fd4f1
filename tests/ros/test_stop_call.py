"""`opc stop` and `opc release` as programs, against a twin."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("rclpy")

from tests.ros.twin_rig import PATIENCE_S, ROBOT, ROOT, TwinProcess, own_domain

pytestmark = pytest.mark.ros


def opc(*words: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "opc_ros.cli.main", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, json.loads(done.stdout)


def test_a_stop_is_confirmed_by_name_stays_and_is_released() -> None:
    with own_domain():
        twin = TwinProcess()
        try:
            assert opc("stop", ROBOT, "--timeout", str(PATIENCE_S / 2)) == (0, {"stopped": [ROBOT], "unconfirmed": []})
            assert opc("stop", "--timeout", "10") == (0, {"stopped": [ROBOT], "unconfirmed": []})
            assert opc("release", ROBOT, "--timeout", "30") == (0, {"released": [ROBOT], "unconfirmed": []})
            assert opc("stop", "nobody", "--timeout", "1") == (3, {"stopped": [], "unconfirmed": ["nobody"]})
        finally:
            twin.stop()
