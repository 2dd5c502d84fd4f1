"""Find the configuration files that come with the product, wherever it is installed."""

from __future__ import annotations

import os
from pathlib import Path

from opc_ros.errors import SetupError


def locate_config(name: str) -> Path:
    """A file of `config/`: beside the sources, or in the share folder of an installed workspace."""
    beside_sources = Path(__file__).resolve().parents[2] / "config"
    prefixes = filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))
    folders = [beside_sources, *(Path(prefix) / "share" / "opc_ros" / "config" for prefix in prefixes)]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise SetupError(
        f"config file {name!r} is in none of {', '.join(map(str, folders))}: source your workspace's setup"
    )
