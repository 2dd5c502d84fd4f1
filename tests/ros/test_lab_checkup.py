"""`opc doctor --lab`: who hears whom, with made-up reports and with a real node."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from opc_ros.bringup.lab_names import NAMESPACE
from opc_ros.ros.lab_checkup import NodeWord, hear_words, judge
from tests.ros.conftest import DEADLINE_S, Probe, Process

LAB, ARM = 7, 90
OF_LAB = ("scheduler", "scorer", "arm1/recorder", "arm1/policy_runner", "arm1/arm_gateway")
OF_ARM = ("arm1/arm_guard", "arm1/arm_gateway")


def word(name: str, domain: int) -> NodeWord:
    hears = frozenset(OF_LAB if domain == LAB else OF_ARM)
    return NodeWord(name, domain, "lab-pc", "0.2.0", "SUBNET", hears, 0.003)


WORDS = [*(word(name, LAB) for name in OF_LAB), *(word(name, ARM) for name in OF_ARM)]


def change(name: str, **changes: object) -> list[NodeWord]:
    return [dataclasses.replace(each, **changes) if each.name == name else each for each in WORDS]  # type: ignore[arg-type]


def complaints(words: list[NodeWord]) -> list[tuple[str, str, str]]:
    found = judge(words, ["arm1"], LAB, {"arm1": ARM})
    return [(check.name, check.status, check.detail) for check in found if check.status != "ok"]


def test_a_lab_in_which_everybody_hears_everybody_is_well() -> None:
    found = list(judge(WORDS, ["arm1"], LAB, {"arm1": ARM}))
    assert [check.name for check in found] == [*OF_LAB, *OF_ARM]
    assert {check.status for check in found} == {"ok"}
    assert found[0].detail == "on lab-pc, domain 7, looks by SUBNET, version 0.2.0, clock +3 ms behind ours"


def test_a_lab_with_a_namespace_is_judged_by_its_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of another lab in the same domain, with robots of the same names, are not mistaken for this lab's."""
    monkeypatch.setenv(NAMESPACE, "lab_a")
    assert [detail for _, _, detail in complaints(WORDS)] == [
        *(f"nobody hears it in domain {domain}" for domain in [LAB] * len(OF_LAB) + [ARM] * len(OF_ARM))
    ]
    ours = [
        dataclasses.replace(each, name=f"lab_a/{each.name}", hears=frozenset(f"lab_a/{name}" for name in each.hears))
        for each in WORDS
    ]
    assert complaints([*WORDS, *ours]) == []
    deaf = [dataclasses.replace(each, hears=frozenset()) if each.name == "lab_a/scheduler" else each for each in ours]
    assert [(name, detail.split(":")[0]) for name, _, detail in complaints(deaf)] == [
        ("lab_a/scheduler", "does not hear lab_a/arm1/policy_runner")
    ]


def test_a_runner_that_looks_only_on_its_own_host_is_distinguished_from_one_that_is_off() -> None:
    alone = frozenset({"arm1/policy_runner", "arm1/recorder", "arm1/arm_gateway"})
    found = complaints(change("arm1/policy_runner", hears=alone, host="robot-pc", discovery="LOCALHOST"))
    assert found == [
        (
            "arm1/policy_runner",
            "missing",
            "does not hear scheduler: the first is on robot-pc, domain 7, looks by LOCALHOST; "
            "the other on lab-pc, domain 7, looks by SUBNET",
        )
    ]


def test_a_node_that_only_others_hear_is_named_with_one_of_them() -> None:
    words = [each for each in WORDS if each.name != "arm1/recorder"]
    assert complaints(words) == [
        ("arm1/recorder", "missing", "not heard here in domain 7, though scheduler on lab-pc hears it")
    ]


def test_a_node_that_nobody_hears_is_missing() -> None:
    words = [dataclasses.replace(each, hears=each.hears - {"scorer"}) for each in WORDS if each.name != "scorer"]
    assert complaints(words) == [("scorer", "missing", "nobody hears it in domain 7")]


def test_a_guard_in_the_labs_domain_is_told_where_it_belongs() -> None:
    hears = frozenset(OF_LAB)
    words = [dataclasses.replace(each, hears=each.hears - {"arm1/arm_guard"}) for each in WORDS]
    words = [each if each.name != "arm1/arm_guard" else word("arm1/arm_guard", LAB) for each in words]
    assert ("arm1/arm_guard", "missing", "on lab-pc, domain 7, looks by SUBNET, expected in domain 90") in complaints(
        [dataclasses.replace(each, hears=hears) if each.domain == LAB else each for each in words]
    )


def test_a_clock_that_is_off_and_another_version_are_named() -> None:
    (found,) = complaints(change("arm1/recorder", offset_s=-30.0))
    assert found[:2] == ("arm1/recorder", "missing")
    assert "clock -30000 ms behind ours" in found[2]
    told = complaints(change("scorer", version="0.1.0"))
    assert {status for _, status, _ in told} == {"optional"}
    assert ("scorer", "optional") in {each[:2] for each in told}


def test_an_empty_lab_is_one_line() -> None:
    assert complaints([]) == [("lab", "missing", "no node of this lab is heard in ROS domain 7, 90")]


@pytest.mark.ros
def test_a_real_node_says_where_it_runs_and_whom_it_hears(
    tmp_path: Path, start: Callable[..., Process], probe: Probe, ros_domain: int
) -> None:
    start("recorder", "/arm1", store=tmp_path / "store")
    deadline_s = time.monotonic() + DEADLINE_S
    found: list[NodeWord] = []
    while not any("probe" in each.hears for each in found):
        assert time.monotonic() < deadline_s, found
        found = [each for each in hear_words([ros_domain], 1.5) if each.name == "arm1/recorder"]
    assert (found[0].domain, found[0].host) == (ros_domain, socket.gethostname())
    assert found[0].discovery == "LOCALHOST"  # by a profile of Fast DDS or by the range, depending on the middleware
    assert abs(found[0].offset_s) < 30.0
