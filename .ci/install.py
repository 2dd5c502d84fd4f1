"""Install this repository and its pinned packages into the environment that runs this file.

Files whose sha256 is not in .ci/lock.txt are refused, except for packages in UNLOCKED (`UNLOCKED=torch make demo`).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LOCK = ROOT / ".ci" / "lock.txt"
# Downloads mostly wait for answers, so more of them than there are cores are worthwhile.
DOWNLOADS_AT_ONCE = 6
# Needed to build this package, whose version comes from the repository's tags.
BUILD = ("setuptools", "setuptools-scm")
# Both install into the same folder, so if the first is installed, both are removed before the second is installed.
REPLACED = {"opencv-python": "opencv-python-headless"}
QUIET = ("--quiet", "--disable-pip-version-check")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", help="extras of pyproject.toml, such as ros-wheels and dev")
    extras = parser.parse_args().extras
    wheels = Path(sys.prefix) / "wheels"
    wheels.mkdir(exist_ok=True)
    pins = choose_pins(CONSTRAINTS.read_text().splitlines(), extras)
    remove_replaced()
    started = time.monotonic()
    wanted = sorted(set(pins) - set(find_pins(wheels)) - set(installed_pins()))
    print(f"downloading {len(wanted)} packages", flush=True)
    complaints = download(wanted, wheels, read_hashes(LOCK.read_text()), os.environ.get("UNLOCKED", "").split())
    downloaded = time.monotonic()
    if complaints:
        print(*complaints, sep="\n", file=sys.stderr)
        print("make: not every package could be downloaded; run the same command again to continue", file=sys.stderr)
        return 1
    note_phase("download", downloaded - started)
    print("installing them", flush=True)
    if install(extras, wheels) != 0:
        return 1
    for wheel in wheels.iterdir():
        wheel.unlink()
    note_phase("install", time.monotonic() - downloaded)
    return 0


def note_phase(name: str, seconds: float) -> None:
    """Print how long it took, and save it for the sum that `make` prints at the end."""
    print(f"  took {seconds:.0f} s", flush=True)
    with (Path(sys.prefix) / ".phases").open("a") as file:
        file.write(f"{name} {seconds:.1f}\n")


def choose_pins(lines: Iterable[str], extras: Iterable[str]) -> list[str]:
    """The pins that the package needs with these extras: `ruff==1.2  # dev` is only for the extra `dev`."""
    chosen = []
    for line in lines:
        pin, _, extra = (part.strip() for part in line.partition("#"))
        if pin and (not extra or extra in extras):
            chosen.append(canonical(pin))
    return chosen


def canonical(pin: str) -> str:
    name, _, version = pin.partition("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version.partition('+')[0]}"


def find_pins(wheels: Path) -> list[str]:
    """Pins whose wheels are already here; a truncated file does not count."""
    whole = (path for path in wheels.glob("*.whl") if zipfile.is_zipfile(path))
    return [canonical("==".join(path.name.split("-")[:2])) for path in whole]


def installed_pins() -> list[str]:
    from importlib.metadata import distributions

    return [canonical(f"{found.metadata['Name']}=={found.version}") for found in distributions()]


def remove_replaced() -> None:
    names = {pin.partition("==")[0] for pin in installed_pins()}
    if gone := [name for pair in REPLACED.items() if pair[0] in names for name in pair]:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", *QUIET, "--yes", *gone], stderr=subprocess.DEVNULL)


def read_hashes(text: str) -> dict[str, str]:
    """The lock file's options for each pin, such as `--hash=sha256:0a...`."""
    entries = (entry.split(maxsplit=1) for entry in text.replace("\\\n", "").splitlines() if not entry.startswith("#"))
    return {pin: " ".join(hashes.split()) for pin, hashes in entries}


def download(pins: list[str], wheels: Path, hashes: dict[str, str], unlocked: list[str]) -> list[str]:
    """Fetch or build a wheel of each, several at once; returns pip's complaints about those that failed.

    pip compares every file it receives, wheel or source, with the hashes before opening it.
    """
    if unknown := [pin for pin in pins if pin not in hashes and pin.partition("==")[0] not in unlocked]:
        return [f"{', '.join(unknown)}: not in {LOCK.relative_to(ROOT)}; `make lock` writes it"]
    free = [pin for pin in pins if pin.partition("==")[0] in unlocked]
    locked = [pin for pin in pins if pin not in free]
    batches = [
        [f"{pin} {hashes[pin]}" for pin in locked[start::DOWNLOADS_AT_ONCE]] for start in range(DOWNLOADS_AT_ONCE)
    ]
    command = (sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--use-pep517", f"--wheel-dir={wheels}")
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number, lines in enumerate([*batches, free]):
            if lines:
                listed = Path(folder, f"{number}.txt")
                listed.write_text("\n".join(lines))
                checking = () if lines is free else ("--require-hashes",)
                given = [*command, *checking, f"--requirement={listed}"]
                running.append(subprocess.Popen(given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for process in running:
            _, errors = process.communicate()
            if process.returncode != 0:
                complaints += explain(errors)
    return complaints


def explain(errors: str) -> list[str]:
    """The end of pip's output or, for a file with the wrong hash, its package and what to do if you trust it."""
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("WARNING")]
    if "DO NOT MATCH THE HASHES" not in errors:
        return lines[-3:]
    names = re.findall(r"^ +([A-Za-z0-9._-]+)==\S+ from ", errors, flags=re.MULTILINE)
    got = re.findall(r"Got +([0-9a-f]{64})", errors)
    return [
        f"{name}: the file that pip found has sha256 {digest}, which {LOCK.relative_to(ROOT)} does not list; "
        f"if you trust it, run: UNLOCKED={name} make ..."
        for name, digest in zip(names, got, strict=False)
    ] or lines[-3:]


def install(extras: list[str], wheels: Path) -> int:
    """Install from the wheels only, or from the index for what constraints.txt lacks, such as a GPU build of torch."""
    pip = [*(sys.executable, "-m", "pip", "install", *QUIET, "--no-compile", f"--find-links={wheels}")]
    pip.append(f"--constraint={CONSTRAINTS}")
    if subprocess.run([*pip, "--no-index", *BUILD]).returncode != 0:
        return 1
    command = [*pip, "--no-build-isolation", "--editable", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)]
    if subprocess.run([*command, "--no-index"], stderr=subprocess.DEVNULL).returncode == 0:
        return 0
    print("  some packages are not in constraints.txt; looking for them in the index, without hashes", flush=True)
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
