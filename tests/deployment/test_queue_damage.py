"""A queue whose file is damaged, or whose disk is full: reported in one line, and nothing is lost."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.queue import Queue
from opc_ros.errors import DeploymentError, DiskFull, OpcError


def open_queue(folder: Path) -> Queue:
    return Queue(folder, AuditLog(folder / "audit.jsonl"))


def change_often(queue: Queue) -> None:
    for number in range(300):
        with queue.change("test", number) as tell:
            tell("decision", {"text": "y" * 2000})


def change_while_full(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk under the audit log is full meanwhile."""

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("opc_ros.deployment.audit_log.os.fsync", refuse)
        with pytest.raises(DiskFull, match="No space left"), queue.change("test", 1) as tell:
            tell("decision", {"text": "while full"})


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    queue = open_queue(folder)
    for number in range(300):
        with queue.change("test", number) as tell:
            tell("decision", {"number": number, "text": "x" * 40})
    queue.close()
    return folder


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bits_are_one_line_or_harmless(filled: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "damaged"
    shutil.copytree(filled, folder)
    path = folder / "queue.db"
    data = bytearray(path.read_bytes())
    for _ in range(20):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    complaint = ""
    try:
        queue = open_queue(folder)
        queue.requests()
        queue.rows("SELECT * FROM events")
        queue.close()
    except OpcError as error:
        complaint = str(error)
    assert "\n" not in complaint


def test_a_damaged_page_is_noticed_at_the_start_with_the_way_back(filled: Path) -> None:
    path = filled / "queue.db"
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 5] = bytes(4096 * 2)
    path.write_bytes(data)
    with pytest.raises(DeploymentError, match=r"queue\.db: .*put back the newest good copy") as caught:
        open_queue(filled)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_line_and_the_queue_goes_on_when_there_is_space(filled: Path) -> None:
    queue = open_queue(filled)
    (pages,) = queue.rows("PRAGMA page_count")[0]
    queue.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFull, match="full; no robot is leased until there is space"):
        change_often(queue)
    queue.rows("PRAGMA max_page_count = 1000000")
    with queue.change("test", 1000) as tell:
        tell("decision", {"text": "after"})
    queue.close()
    again = open_queue(filled)
    assert again.rows("SELECT body FROM events ORDER BY change DESC LIMIT 1")[0][0] == '{"text":"after"}'


def test_a_full_disk_under_the_audit_log_loses_no_event(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = open_queue(filled)
    change_while_full(queue, monkeypatch)
    with queue.change("test", 2) as tell:
        tell("decision", {"text": "after"})
    lines = (filled / "audit.jsonl").read_text().splitlines()
    assert sum("while full" in line for line in lines) == 1
    assert "after" in lines[-1]


def test_a_torn_line_that_a_full_disk_keeps_from_being_set_aside_is_reported_as_a_full_disk(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = open_queue(filled)
    with (filled / "audit.jsonl").open("ab") as log:
        log.write(b'{"n":301,"torn')
    change_while_full(queue, monkeypatch)
    queue.copy_events_to_audit_log()
    lines = (filled / "audit.jsonl").read_text().splitlines()
    assert "while full" in lines[-1]
    assert not any("torn" in line for line in lines)
