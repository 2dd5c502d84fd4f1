"""Candidates on their way from the lab to a robot, by digest."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from opc_ros.errors import CandidateError, LabUnreachable, OpcError, TransferError
from opc_ros.transfer import depot as depot_module
from opc_ros.transfer.channel import DepotChannel
from opc_ros.transfer.fetching import fetch_candidate
from opc_ros.transfer.lab_clock import ClockReading, read_lab_clock, why_apart
from opc_ros.transfer.server import DepotServer
from tests.transfer.lab import Wire, make_lab, open_depot, register_candidate


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depot_module, "CHUNK_BYTES", 5000)


def test_a_candidate_is_fetched_over_a_link_that_keeps_failing(tmp_path: Path) -> None:
    keys, rng = make_lab(tmp_path), random.Random(5)
    wanted = register_candidate(tmp_path)
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"], rng)
    for _ in range(1000):
        try:
            found = fetch_candidate(wire, wanted.id, tmp_path / "arm1" / "candidates")
            break
        except LabUnreachable:
            wire.depot = open_depot(tmp_path)
    assert (found.id, found.artifact_bytes) == (wanted.id, wanted.artifact_bytes)
    assert wire.cuts > 3
    asked = len(wire.asked)
    assert fetch_candidate(wire, wanted.id, tmp_path / "arm1" / "candidates").id == wanted.id
    assert len(wire.asked) == asked, "what is there is not fetched again"
    pieces = [path for _, path in wire.asked if "/artifact" in path]
    assert len(pieces) < 3 * (len(wanted.artifact_bytes) // 5000 + 1), "it went on where it was cut"


def test_a_damaged_copy_is_fetched_again_and_other_bytes_are_thrown_away(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    wanted = register_candidate(tmp_path)
    folder = tmp_path / "arm1" / "candidates"
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    kept = fetch_candidate(wire, wanted.id, folder)
    (kept.folder / wanted.manifest.artifact).write_bytes(b"x")
    assert fetch_candidate(wire, wanted.id, folder).artifact_bytes == wanted.artifact_bytes

    class Liar(Wire):
        def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
            answer = super().ask(method, path, body)
            return b"y" * len(answer) if "/artifact" in path else answer

    with pytest.raises(OpcError):
        fetch_candidate(Liar(open_depot(tmp_path), "arm1", keys["arm1"]), wanted.id, tmp_path / "other")
    assert fetch_candidate(wire, wanted.id, tmp_path / "other").id == wanted.id


def test_only_what_is_registered_leaves_the_lab(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    register_candidate(tmp_path)
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    for wanted, complaint in (("0" * 64, "not registered"), ("../keys", "64 hex digits"), ("c0", "64 hex digits")):
        with pytest.raises((TransferError, CandidateError), match=complaint):
            fetch_candidate(wire, wanted, tmp_path / "arm1" / "candidates")


def test_over_http_with_a_server_that_goes_and_comes_back(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    wanted = register_candidate(tmp_path)
    server = DepotServer(open_depot(tmp_path), "127.0.0.1")
    channel = DepotChannel(f"http://127.0.0.1:{server.port}", "arm1", keys["arm1"])
    assert fetch_candidate(channel, wanted.id, tmp_path / "there").id == wanted.id
    reading = read_lab_clock(channel)
    assert abs(reading.apart_s) <= reading.doubt_s + 0.05
    server.close()
    with pytest.raises(LabUnreachable, match="does not answer"):
        channel.ask("GET", "/clock")
    again = DepotServer(open_depot(tmp_path), "127.0.0.1", server.port)
    try:
        assert channel.ask("GET", "/clock")
    finally:
        channel.close()
        again.close()


def test_differing_clocks_are_reported_and_a_slow_link_is_no_reason(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    import time

    behind = read_lab_clock(wire, lambda: time.time_ns() - 3_000_000_000)
    assert behind.apart_s == pytest.approx(3.0, abs=0.5)
    assert "3.0 s behind the lab's, allowed 1" in (why_apart(ClockReading(3.0, 0.01), 1.0) or "")
    assert "ahead of" in (why_apart(ClockReading(-3.0, 0.01), 1.0) or "")
    assert why_apart(ClockReading(1.4, 0.5), 1.0) is None
    assert "not been read" in (why_apart(None, 1.0) or "")
