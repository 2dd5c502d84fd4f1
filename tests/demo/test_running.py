"""What the demo prints about a lease that ends before its episodes do."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opc_ros.demo import running
from opc_ros.demo.lab import DemoLab
from opc_ros.demo.screen import Screen

STATUS = {"requests": [{"candidate_id": "c1", "name": "trio"}], "robots": []}


def tell(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, dict[str, Any]]) -> str:
    found = [SimpleNamespace(kind=kind, body=body) for kind, body in entries]
    monkeypatch.setattr(running, "read_audit_log", lambda _: found)
    out = io.StringIO()
    lab = cast(DemoLab, SimpleNamespace(plan=SimpleNamespace(audit_log=None)))
    running._Teller(lab, Screen(out)).tell(STATUS)
    return out.getvalue()


def ended(message: str) -> dict[str, Any]:
    return {"lease_id": "l1", "robot": "arm2", "candidate_id": "c1", "ran": 2, "episodes": 4, "message": message}


def test_an_arm_that_the_scheduler_wants_back_is_no_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    revoked = ("permit_revoked", {"lease_id": "l1", "permit_id": "p1", "reason": "race over"})
    said = tell(monkeypatch, revoked, ("lease_ended", ended("permit p1 was revoked; see to the driver")))
    assert "arm2: taken back from trio after 2 of 4 episodes" in said
    assert "driver" not in said


def test_an_arm_that_has_run_all_episodes_was_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    revoked = ("permit_revoked", {"lease_id": "l1", "permit_id": "p1", "reason": "request aborted"})
    assert "taken back" not in tell(monkeypatch, revoked, ("lease_ended", ended("") | {"ran": 4}))


def test_an_arm_that_breaks_off_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "arm2: broke off after 2 of 4 episodes of trio: no image" in tell(
        monkeypatch, ("lease_ended", ended("no image"))
    )
