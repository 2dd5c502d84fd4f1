"""Write .ci/lock.txt: every pin in constraints.txt with the sha256 of each file that may be installed for it.

`make lock` runs it. The hashes come from the public package index; those of wheels in folders that pip is configured to
search (`find-links`), such as a CPU build of torch, are added.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from urllib.parse import unquote, urlparse

sys.path.insert(0, str(Path(__file__).parent))
from install import CONSTRAINTS, LOCK, canonical, choose_pins

UV = "uv==0.13.8"  # gets the hashes of all files of a version from the index at once
HEADER = """\
# What `make` accepts for each line of constraints.txt: the sha256 of every file of that version, for all platforms.
# `make lock` writes this file.
"""


def main() -> None:
    pins = choose_pins(CONSTRAINTS.read_text().splitlines(), ("dev", "ros-wheels"))
    found = dict.fromkeys(pins, "")
    for entry in ask_index(pins).replace("\\\n", "").splitlines():
        pin, *hashes = entry.split()
        found[canonical(pin)] = " ".join(hashes)
    for path in local_wheels():
        pin = canonical("==".join(path.name.split("-")[:2]))
        digest = f"--hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        if pin in found and digest not in found[pin]:
            found[pin] = f"{found[pin]} {digest}".strip()
    if lacking := [pin for pin, hashes in found.items() if not hashes]:
        sys.exit(f"lock: the index has no file for {', '.join(lacking)}")
    lines = (f"{pin} \\\n    " + " \\\n    ".join(sorted(hashes.split())) for pin, hashes in sorted(found.items()))
    LOCK.write_text(HEADER + "\n".join(lines) + "\n")


def ask_index(pins: list[str]) -> str:
    """Requirements with hashes, one logical line each."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", UV], check=True)
        command = [f"{folder}/bin/uv", "pip", "compile", "--quiet", "--no-deps", "--generate-hashes", "--no-annotate"]
        return subprocess.run(
            [*command, "--no-header", "--python-version=3.11", "-"],
            check=True,
            input="\n".join(pins),
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


def local_wheels() -> list[Path]:
    """Wheels in the folders named in pip's settings."""
    settings = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    values = [line.partition("=")[2].strip("'\"") for line in settings.splitlines() if ".find-links=" in line]
    places = " ".join([*values, os.environ.get("PIP_FIND_LINKS", "")]).split()
    folders = {Path(unquote(urlparse(place).path) if place.startswith("file:") else place) for place in places}
    return sorted(path for folder in folders if folder.is_dir() for path in folder.glob("*.whl"))


if __name__ == "__main__":
    main()
