"""The repository's own files."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tracked(*paths: str) -> list[str]:
    """Files in folders or of a pattern, with those not yet committed; without git, whatever is there."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode == 0:
        return [name for name in found.stdout.splitlines() if (ROOT / name).is_file()]
    every = (each for path in paths for each in (ROOT.rglob(path) if "*" in path else (ROOT / path).rglob("*")))
    passed_over = {".git", ".venv", "__pycache__"}
    return [str(each.relative_to(ROOT)) for each in every if each.is_file() and passed_over.isdisjoint(each.parts)]
