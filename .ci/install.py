"""Install this repository and its pinned packages into the environment that runs this file."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
# Most of the time a download waits for an answer, so more of them than there are cores pay.
DOWNLOADS_AT_ONCE = 6
# Built in an environment of its own, the package itself needs this again each time.
BUILD = "setuptools"
# They share one folder: where the first was ever installed, both go before the second comes.
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
    complaints = download(wanted, wheels)
    downloaded = time.monotonic()
    if complaints:
        print(*complaints, sep="\n", file=sys.stderr)
        print("make: not every package could be downloaded; run the same command again to go on", file=sys.stderr)
        return 1
    print(f"  took {downloaded - started:.0f} s\ninstalling them", flush=True)
    if install(extras, wheels) != 0:
        return 1
    for wheel in wheels.iterdir():
        wheel.unlink()
    print(f"  took {time.monotonic() - downloaded:.0f} s", flush=True)
    return 0


def choose_pins(lines: Iterable[str], extras: Iterable[str]) -> list[str]:
    """The pins that the package needs with these extras: `ruff==1.2  # dev` is for the extra `dev` alone."""
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
    """What lies here already; one that was cut short in the middle counts for nothing."""
    whole = (path for path in wheels.glob("*.whl") if zipfile.is_zipfile(path))
    return [canonical("==".join(path.name.split("-")[:2])) for path in whole]


def installed_pins() -> list[str]:
    from importlib.metadata import distributions

    pins = (canonical(f"{found.metadata['Name']}=={found.version}") for found in distributions())
    return [pin for pin in pins if not pin.startswith(f"{BUILD}==")]


def remove_replaced() -> None:
    names = {pin.partition("==")[0] for pin in installed_pins()}
    if gone := [name for pair in REPLACED.items() if pair[0] in names for name in pair]:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", *QUIET, "--yes", *gone], stderr=subprocess.DEVNULL)


def download(pins: list[str], wheels: Path) -> list[str]:
    """Fetch or build a wheel of each, several at once; gives what pip complained of where that failed."""
    command = (sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--use-pep517", f"--wheel-dir={wheels}")
    batches = [batch for start in range(DOWNLOADS_AT_ONCE) if (batch := pins[start::DOWNLOADS_AT_ONCE])]
    running = [
        subprocess.Popen([*command, *batch], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for batch in batches
    ]
    complaints = []
    for process in running:
        _, errors = process.communicate()
        if process.returncode != 0:
            complaints += [line for line in errors.splitlines() if line.strip() and not line.startswith("WARNING")][-3:]
    return complaints


def install(extras: list[str], wheels: Path) -> int:
    """From the wheels alone; where constraints.txt misses one, as for a GPU build of torch, from the index."""
    command = [
        *(sys.executable, "-m", "pip", "install", *QUIET, "--no-compile", f"--find-links={wheels}"),
        *(f"--constraint={CONSTRAINTS}", "--editable", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)),
    ]
    if subprocess.run([*command, "--no-index"], stderr=subprocess.DEVNULL).returncode == 0:
        return 0
    print("  some packages are not in constraints.txt; looking for them in the index", flush=True)
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
