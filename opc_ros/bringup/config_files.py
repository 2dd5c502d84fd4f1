"""Find the configuration files that come with opc_ros, wherever it is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opc_ros.errors import SetupError


def find_config(given: Path | str) -> Path:
    """The given file or, if there is none, the installed file with that name."""
    path = Path(given).expanduser()
    if path.is_file():
        return path.resolve()
    beside_sources = Path(__file__).resolve().parents[2] / "config"
    # A sourced colcon workspace, and the environment into which pip installed the wheel.
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    folders = [beside_sources, *(Path(prefix) / "share" / "opc_ros" / "config" for prefix in prefixes)]
    for folder in folders:
        if str(path) in (path.name, f"config/{path.name}") and (folder / path.name).is_file():
            return folder / path.name
    raise SetupError(f"{given}: no such file, nor is there one with that name in {' or '.join(map(str, folders))}")
