"""One file lists what the system must have; whatever names it elsewhere agrees with that file."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / ".ci" / "system-packages.txt"
# Already on every Debian and Ubuntu with the listed packages: the C library and its parts, what gcc brings, zlib.
IN_EVERY_SYSTEM = re.compile(r"ld-linux.*|lib(c|dl|m|pthread|rt|util|gcc_s|quadmath|stdc\+\+|z)\.so\.\d+")


def listed() -> list[str]:
    return [line.split()[0] for line in LIST.read_text().splitlines() if line.strip() and not line.startswith("#")]


def test_the_readme_installs_exactly_the_packages_of_the_list() -> None:
    (command,) = re.findall(r"apt-get install -y (.+)", (ROOT / "README.md").read_text())
    assert command.split() == listed()


def test_the_container_recipe_reads_the_list() -> None:
    recipe = (ROOT / ".ci" / "Containerfile").read_text()
    (command,) = re.findall(r"&& (grep .*) > /tmp/names ", recipe)
    names = subprocess.run(
        ["sh", "-c", command.replace("/tmp/system-packages.txt", str(LIST))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert names.stdout.split() == listed()


def test_no_wheel_needs_a_library_that_a_minimal_system_lacks() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    prefix = site.parents[2]
    libraries = [path for path in prefix.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    provided = {path.name for path in prefix.rglob("*.so*")}
    output = subprocess.run(["readelf", "-d", *map(str, libraries)], capture_output=True, text=True).stdout
    wanted: dict[str, set[str]] = {}
    current = ""
    for line in output.splitlines():
        if line.startswith("File: "):
            current = Path(line.removeprefix("File: ")).name
        elif found := re.search(r"\(NEEDED\).*\[(.+)\]", line):
            wanted.setdefault(found[1], set()).add(current)
    assert "libc.so.6" in wanted
    lacking = {
        name: users for name, users in wanted.items() if not IN_EVERY_SYSTEM.fullmatch(name) and name not in provided
    }
    if any(name.startswith(("libcu", "libnv")) for name in lacking):
        pytest.skip("this torch is built for a GPU, whose libraries its driver brings")
    assert lacking == {}
