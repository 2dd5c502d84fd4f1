"""The check of a machine before anything is downloaded: one line says what is missing and what provides it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / ".ci" / "check-machine"
TOOLS = ("sh", "awk", "cat", "chmod", "df", "dirname", "env", "mktemp", "rm", "tail")


class Machine:
    """A machine that only has the commands in one folder."""

    def __init__(self, folder: Path) -> None:
        self.commands = folder
        folder.mkdir()
        for tool in TOOLS:
            self.link(tool)
        self.write("id", "echo 1000")
        for tool in ("cmake", "c++"):
            self.write(tool, "")
        # A wrapper and not a link: the interpreter finds its library relative to its own path.
        self.write("python3.11", f'exec {sys.executable} "$@"')

    def link(self, tool: str) -> None:
        found = shutil.which(tool)
        assert found is not None
        (self.commands / tool).symlink_to(found)

    def write(self, name: str, script: str) -> None:
        (self.commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.commands / name).chmod(0o755)

    def check(self, needed_gb: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CHECK, str(needed_gb)],
            env={"PATH": str(self.commands), **environment},
            capture_output=True,
            text=True,
            cwd=self.commands,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "bin")


def test_a_complete_machine_passes_and_its_python_is_printed(machine: Machine) -> None:
    done = machine.check()
    assert (done.returncode, done.stdout, done.stderr) == (0, "python3.11\n", "")


@pytest.mark.parametrize(("command", "package"), [("cmake", "cmake"), ("c++", "g++")])
def test_a_missing_tool_is_one_line_with_the_command_that_brings_it(
    machine: Machine, command: str, package: str
) -> None:
    (machine.commands / command).unlink()
    machine.write("apt-get", "exit 1")
    done = machine.check()
    assert done.returncode == 1
    assert done.stderr.startswith(f"make: missing {package} (to ")
    assert done.stderr.endswith(f"; run: sudo apt-get install -y {package}\n")
    assert done.stderr.count("\n") == 1


def test_several_missing_packages_need_one_command(machine: Machine) -> None:
    for command in ("cmake", "c++"):
        (machine.commands / command).unlink()
    machine.write("apt-get", "exit 1")
    assert machine.check().stderr.endswith("run: sudo apt-get install -y cmake g++\n")


def test_headers_and_venv_are_those_of_the_python_used(machine: Machine) -> None:
    machine.write("apt-get", "exit 1")
    script = f"""
case "$2" in
  *Python.h*|*ensurepip*) exit 1 ;;
esac
exec {sys.executable} "$@"
"""
    machine.write("python3.11", script)
    done = machine.check()
    system = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True).stdout
    prefix = "python3" if system.startswith("Python {}.{}.".format(*sys.version_info)) or not system else "python3.11"
    assert done.stderr.endswith(f"run: sudo apt-get install -y {prefix}-venv {prefix}-dev\n")


def test_no_python_at_all_is_named_with_all_that_belongs_to_it(machine: Machine) -> None:
    (machine.commands / "python3.11").unlink()
    machine.write("apt-get", "exit 1")
    assert machine.check().stderr.endswith("run: sudo apt-get install -y python3 python3-venv python3-dev\n")


def test_a_python_too_old_or_too_new_is_refused_with_what_to_give(machine: Machine) -> None:
    machine.write("python3.9", "echo 3.9")
    done = machine.check(PYTHON="python3.9")
    assert done.stderr == "make: PYTHON=python3.9 is Python 3.9, expected 3.11 or 3.12\n"
    (machine.commands / "python3.11").unlink()
    machine.write("python3", "case $1 in --version) echo Python 3.13.1 ;; *) echo 3.13 ;; esac")
    assert machine.check().stderr.startswith("make: python3 is Python 3.13.1, expected 3.11 or 3.12; install one")


def test_root_installs_what_is_missing_and_says_so(machine: Machine) -> None:
    (machine.commands / "cmake").unlink()
    machine.write("id", "echo 0")
    machine.write(
        "apt-get", f"[ $1 = update ] || {{ echo > {machine.commands}/cmake; chmod +x {machine.commands}/cmake; }}"
    )
    done = machine.check()
    assert (done.returncode, done.stdout) == (0, "python3.11\n")
    assert done.stderr == "make: installing what this machine lacks: cmake (to build the ROS messages)\n"


def test_root_may_keep_apt_out_of_it(machine: Machine) -> None:
    (machine.commands / "cmake").unlink()
    machine.write("id", "echo 0")
    machine.write("apt-get", "echo must not run >&2; exit 1")
    done = machine.check(SYSTEM_PACKAGES="never")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_others_install_through_sudo_when_they_ask_for_it(machine: Machine) -> None:
    (machine.commands / "cmake").unlink()
    machine.write(
        "sudo",
        f"echo $* >> {machine.commands}/sudo.log; echo > {machine.commands}/cmake; chmod +x {machine.commands}/cmake",
    )
    machine.write("apt-get", "exit 1")
    assert machine.check(SYSTEM_PACKAGES="install").returncode == 0
    update, install = (machine.commands / "sudo.log").read_text().splitlines()
    assert update == "apt-get update"
    assert install.endswith("apt-get install -y --no-install-recommends cmake")


def test_an_apt_get_that_fails_ends_in_one_line_with_its_log(machine: Machine) -> None:
    (machine.commands / "cmake").unlink()
    machine.write("id", "echo 0")
    machine.write("apt-get", "echo no route to host; exit 100")
    done = machine.check(TMPDIR=str(machine.commands))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("make: apt-get could not install cmake; its whole output is in ")


def test_a_system_without_apt_gets_package_names_only(machine: Machine) -> None:
    (machine.commands / "cmake").unlink()
    assert machine.check().stderr.endswith("; install what your system calls them and run make again\n")


def test_a_full_disk_is_told_before_anything_is_downloaded(machine: Machine) -> None:
    done = machine.check(needed_gb=1_000_000)
    assert done.returncode == 1
    assert "GB free in" in done.stderr
    assert "expected 1000000" in done.stderr


def test_shared_memory_that_cannot_be_written_is_reported(machine: Machine) -> None:
    (machine.commands / "mktemp").unlink()
    machine.write("mktemp", "exit 1")
    assert machine.check().stderr.startswith("make: /dev/shm cannot be written")


def test_make_checks_before_it_makes_anything(machine: Machine, tmp_path: Path) -> None:
    machine.link("make")
    machine.link("find")
    (machine.commands / "cmake").unlink()
    machine.write("apt-get", "exit 1")
    done = subprocess.run(
        ["make", "-C", str(ROOT), "demo", f"VENV={tmp_path / 'venv'}", "ROS_SETUP="],
        env={"PATH": str(machine.commands)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith("make: missing cmake")
    assert all("***" in line for line in rest)  # make's own message that it stops
    assert not (tmp_path / "venv").exists()
    assert not os.path.lexists(tmp_path / "venv")
