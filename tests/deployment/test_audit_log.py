from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opc_ros.deployment.audit_check import check_audit_log, read_audit_log, read_checkpoint, write_checkpoint
from opc_ros.deployment.audit_log import AuditHead, AuditLog, entry_hash, head_path
from opc_ros.deployment.keys import PRIVATE_NAME, Signer, create_keys, load_signer, load_trusted_keys
from opc_ros.errors import AuditLogDamaged, DeploymentError


@pytest.fixture
def written(tmp_path: Path, signer: Signer) -> Path:
    """A signed audit log with five lines."""
    path = tmp_path / "audit.jsonl"
    audit_log = AuditLog(path, signer)
    for number in range(1, 6):
        audit_log.append("decision", {"number": number}, at_ns=number)
    return path


def test_an_audit_log_reads_back_what_was_written(written: Path, keys: Path) -> None:
    entries = list(read_audit_log(written))
    assert [entry.body["number"] for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[0].prev == ""
    assert [entry.prev for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    report = check_audit_log(written, load_trusted_keys(keys))
    assert report.is_whole
    assert report.head == AuditHead(5, entries[-1].hash)


def test_an_audit_log_goes_on_after_reopening(written: Path, signer: Signer, keys: Path) -> None:
    assert AuditLog(written, signer).append("later", {}, at_ns=9).n == 6
    assert check_audit_log(written, load_trusted_keys(keys)).is_whole


def test_an_edited_line_is_found(written: Path) -> None:
    written.write_text(written.read_text().replace('"number":3', '"number":8'))
    assert check_audit_log(written, None).problems == ("entry 3: was changed after it was written",)


def test_a_line_edited_with_its_hash_made_to_fit_breaks_the_chain(written: Path, keys: Path) -> None:
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    lines[2]["body"]["number"] = 8
    lines[2]["hash"] = entry_hash({k: v for k, v in lines[2].items() if k not in ("hash", "signature")})
    written.write_text("".join(json.dumps(line) + "\n" for line in lines))
    problems = check_audit_log(written, load_trusted_keys(keys)).problems
    assert any("entry 3: is not signed" in problem for problem in problems)
    assert any("entry 4: does not follow" in problem for problem in problems)


def test_an_audit_log_rewritten_from_scratch_is_not_signed(written: Path, keys: Path) -> None:
    entries = list(read_audit_log(written))
    for path in (written, head_path(written)):
        path.unlink()
    forged = AuditLog(written)
    for entry in entries:
        forged.append(entry.kind, entry.body, entry.at_ns)
    assert check_audit_log(written, None).is_whole  # a chain alone proves nothing against a full rewrite
    assert len(check_audit_log(written, load_trusted_keys(keys)).problems) == 5


def test_a_removed_line_is_found(written: Path) -> None:
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(lines[:2] + lines[3:]))
    assert any("entry 3: does not follow" in problem for problem in check_audit_log(written, None).problems)


def test_lines_cut_off_at_the_end_are_found_and_nothing_more_is_written(written: Path, signer: Signer) -> None:
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(lines[:3]))
    assert check_audit_log(written, None).problems == (
        "the head file remembers 5 entries, the audit log has 3: lines were cut off",
    )
    with pytest.raises(AuditLogDamaged, match="lines were cut off"):
        AuditLog(written, signer)


def test_lines_and_head_file_cut_off_together_are_found_by_a_robots_witness(written: Path) -> None:
    witness = AuditHead(5, list(read_audit_log(written))[-1].hash)
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(lines[:3]))
    head_path(written).unlink()
    assert check_audit_log(written, None).is_whole
    assert check_audit_log(written, None, [witness]).problems == (
        "witness 1 remembers 5 entries, the audit log has 3: lines were cut off",
    )


def test_a_torn_last_line_is_set_aside_and_the_audit_log_goes_on(written: Path, signer: Signer, keys: Path) -> None:
    with written.open("ab") as file:
        file.write(b'{"n":6,"at_ns"')
    report = check_audit_log(written, load_trusted_keys(keys))
    assert report.is_whole
    assert "torn line" in report.notes[0]
    assert AuditLog(written, signer).append("next", {}, at_ns=7).n == 6
    assert check_audit_log(written, load_trusted_keys(keys)).notes == ()
    assert [path.read_bytes() for path in written.parent.glob("*.torn-at-*")] == [b'{"n":6,"at_ns"']


def test_a_last_line_cut_within_is_not_taken_for_a_crash(written: Path, signer: Signer) -> None:
    os.truncate(written, written.stat().st_size - 10)
    assert not check_audit_log(written, None).is_whole
    with pytest.raises(AuditLogDamaged, match="lines were cut off"):
        AuditLog(written, signer)


def test_a_crash_between_line_and_head_file_is_no_problem(written: Path, signer: Signer) -> None:
    before = head_path(written).read_text()
    AuditLog(written, signer).append("next", {}, at_ns=7)
    head_path(written).write_text(before)
    assert check_audit_log(written, None).is_whole
    assert AuditLog(written, signer).append("after", {}, at_ns=8).n == 7


def test_a_body_longer_than_a_block_is_read_back(tmp_path: Path) -> None:
    audit_log = AuditLog(tmp_path / "audit.jsonl")
    audit_log.append("long", {"text": "x" * 300_000}, at_ns=1)
    assert audit_log.append("next", {}, at_ns=2).n == 2
    assert check_audit_log(audit_log.path, None).is_whole


def test_two_writers_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    program = (
        "import sys; from pathlib import Path; from opc_ros.deployment.audit_log import AuditLog\n"
        "audit_log = AuditLog(Path(sys.argv[1]))\n"
        "for n in range(40): audit_log.append(sys.argv[2], {'n': n}, n)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert check_audit_log(path, None).head.entries == 80
    assert check_audit_log(path, None).is_whole


def test_a_killed_writer_loses_no_acknowledged_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    program = (
        "import sys; from pathlib import Path; from opc_ros.deployment.audit_log import AuditLog\n"
        "audit_log = AuditLog(Path(sys.argv[1]))\n"
        "for n in range(10**6): print(audit_log.append('n', {'n': n}, n).n, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    while acknowledged < 50:
        acknowledged = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    acknowledged = int(([str(acknowledged), *writer.stdout.read().split()])[-1])
    writer.wait()
    audit_log = AuditLog(path)
    assert audit_log.head().entries >= acknowledged
    assert check_audit_log(path, None).is_whole


def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    private = tmp_path / "keys" / PRIVATE_NAME
    assert private.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DeploymentError, match="already holds a key"):
        create_keys(tmp_path / "keys")
    private.chmod(0o644)
    with pytest.raises(DeploymentError, match="others can read the private key"):
        load_signer(tmp_path / "keys")


def test_a_checkpoint_saves_checking_old_lines_but_not_seeing_that_one_was_edited(
    written: Path, signer: Signer, keys: Path
) -> None:
    trusted = load_trusted_keys(keys)
    write_checkpoint(written, check_audit_log(written, trusted), signer)
    AuditLog(written, signer).append("later", {}, at_ns=9)
    known = read_checkpoint(written, trusted)
    assert known is not None
    assert check_audit_log(written, trusted, since=known).head.entries == 6
    written.write_text(written.read_text().replace('"number":2', '"number":7'))
    assert read_checkpoint(written, trusted) is None
    assert not check_audit_log(written, trusted).is_whole
