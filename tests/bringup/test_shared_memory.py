"""Shared memory left by killed nodes is removed before new ones start, and nothing else is."""

from __future__ import annotations

import fcntl
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from opc_ros.bringup import shared_memory
from opc_ros.bringup.shared_memory import FOLDER, sweep_shared_memory

ROOT = Path(__file__).resolve().parents[2]
HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_only_what_nobody_has_mapped_or_open_is_removed(tmp_path: Path) -> None:
    names = ["fastrtps_1a", "fastrtps_1a_el", "fastrtps_port7411", "fastrtps_2b", "fastrtps_2b_el", "psm_1", "sem.mp-1"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(4096))
    with (tmp_path / "fastrtps_2b").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    command = [sys.executable, "-c", HOLD, str(tmp_path / "fastrtps_2b_el")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert sweep_shared_memory(tmp_path) == ["fastrtps_1a", "fastrtps_1a_el", "fastrtps_port7411"]
        holder.communicate("\n")
    mapped.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fastrtps_2b", "fastrtps_2b_el", "psm_1", "sem.mp-1"]
    assert sweep_shared_memory(tmp_path) == ["fastrtps_2b", "fastrtps_2b_el"]


def test_a_mapping_counts_though_its_file_was_made_under_another_name(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(bytes(4096))
    with made.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        file.close()
        (tmp_path / "fastrtps_3c").hardlink_to(made)
        made.unlink()
        assert sweep_shared_memory(tmp_path) == []


def test_a_node_in_another_container_keeps_its_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, folder = tmp_path / "proc", tmp_path / "shm"
    (processes / "self").mkdir(parents=True)
    folder.mkdir()
    for name in ("fastrtps_4d", "fastrtps_4d_el", "fastrtps_5e", "fastrtps_5e_el"):
        (folder / name).write_bytes(bytes(16))
    monkeypatch.setattr(shared_memory, "PROCESSES", processes)  # no process is visible
    with (folder / "fastrtps_4d_el").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep_shared_memory(folder) == ["fastrtps_5e", "fastrtps_5e_el"]
    assert sweep_shared_memory(folder) == ["fastrtps_4d", "fastrtps_4d_el"]


def test_a_folder_that_is_not_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep_shared_memory(tmp_path / "nowhere") == []


@pytest.mark.ros
def test_a_node_starts_though_a_killed_one_left_its_segment_half_made(ros_domain: int, tmp_path: Path) -> None:
    # Where DDS puts the first participant of a domain; zeros mean that somebody is still creating it.
    segment = FOLDER / f"fastrtps_port{7400 + 250 * ros_domain + 11}"
    segment.write_bytes(bytes(52400))
    command = [sys.executable, "-m", "opc_ros.ros.scripted_arm_node", "--ros-args", "-r", "__ns:=/arm1", "-p"]
    child = subprocess.Popen([*command, "seed:=-1"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert "seed: got -1" in child.communicate(timeout=60)[1]
    finally:
        child.kill()
        segment.unlink(missing_ok=True)
