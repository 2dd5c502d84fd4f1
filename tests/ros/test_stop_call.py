"""`opc stop` and `opc release` as programs, against a twin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from tests.domains import own_domain
from tests.ros.releasing import make_people
from tests.ros.twin_rig import PATIENCE_S, ROBOT, ROOT, TwinProcess

pytestmark = pytest.mark.ros


def opc(*words: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "opc_ros.cli.main", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, json.loads(done.stdout)


def test_a_stop_is_confirmed_by_name_stays_and_is_released_by_an_operator_alone(tmp_path: Path) -> None:
    make_people(tmp_path / "keys")
    make_people(tmp_path / "strangers" / "keys")
    theirs, strangers = ("--state", str(tmp_path)), ("--state", str(tmp_path / "strangers"))
    with own_domain():
        twin = TwinProcess(keys=tmp_path / "keys")
        try:
            assert opc("stop", ROBOT, "--timeout", str(PATIENCE_S / 2)) == (0, {"stopped": [ROBOT], "unconfirmed": []})
            assert opc("stop", "--timeout", "10") == (0, {"stopped": [ROBOT], "unconfirmed": []})
            refused = (3, {"released": [], "unconfirmed": [ROBOT]})
            assert opc("release", ROBOT, "--timeout", "4", *strangers) == refused
            assert opc("release", ROBOT, "--timeout", "30", *theirs) == (0, {"released": [ROBOT], "unconfirmed": []})
            assert opc("stop", "nobody", "--timeout", "1") == (3, {"stopped": [], "unconfirmed": ["nobody"]})
        finally:
            twin.stop()
