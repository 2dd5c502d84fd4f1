"""A small lab harmed a few times; `python -m tests.faults.fleet --kills 200` does it for an hour."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.faults.fleet import run


# Killed nodes leave DDS shared memory behind that can make other tests' nodes deaf, so these use UDP only.
@pytest.mark.ros
@pytest.mark.slow
def test_what_began_before_and_after_five_faults_is_counted_once_or_named_as_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    arguments = argparse.Namespace(out=tmp_path / "fleet", arms=1, twins=0, kills=5, seed=3, json=True)
    result = run(arguments)
    assert result.faults.total() == 5
    assert result.reckoning.counted > 0
    assert result.reckoning.stored == result.reckoning.counted
    assert (result.reckoning.wrongs, result.left_open) == ({what: [] for what in result.reckoning.wrongs}, "")
