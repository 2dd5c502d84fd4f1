"""Labs of several machines: what runs where, and how they find each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.bringup.lab import load_lab
from opc_ros.bringup.machines import find_here
from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.systems import find_system
from opc_ros.errors import ConfigError, SetupError

LAB = """
store: /data/store
machines:
  office: {address: 10.0.0.1, is_central: true}
  bench: {address: 10.0.0.2}
  attic: {address: attic.local}
robots:
  near: {arm: arm_twin.yaml, rungs: [twin, full]}
  left: {arm: arm_twin.yaml, rungs: [full], machine: bench}
  right: {arm: arm_twin.yaml, rungs: [full], machine: bench, store: /data/right}
  top: {arm: arm_twin.yaml, rungs: [full], machine: attic}
"""


@pytest.fixture
def lab(tmp_path: Path) -> str:
    (tmp_path / "lab.yaml").write_text(LAB)
    return str(tmp_path / "lab.yaml")


def nodes_on(lab: str, machine: str, system: str = "hardware", **more: str) -> dict[str, NodeSpec]:
    given = {"lab": lab, "machine": machine, "state": "/var/robots", **more}
    return {node.label: node for node in find_system(system).nodes(given)}


def test_each_machine_starts_its_own_robots_and_the_central_one_the_rest(lab: str) -> None:
    office, bench = nodes_on(lab, "office"), nodes_on(lab, "bench")
    assert {"scorer", "scheduler", "depot", "console", "near/policy_runner"} <= office.keys()
    assert not any(label.startswith(("left", "right", "top")) for label in office)
    assert {label.split("/")[0] for label in bench} == {"left", "right"}
    assert "near/courier" not in office, "its recorder writes to the lab's own disk"


def test_robots_elsewhere_record_on_their_own_disk_and_have_a_courier_and_the_depots_address(lab: str) -> None:
    bench = nodes_on(lab, "bench")
    assert bench["left/recorder"].parameters["store"] == "/var/robots/left/store"
    assert bench["right/recorder"].parameters["store"] == "/data/right"
    for robot in ("left", "right"):
        assert bench[f"{robot}/policy_runner"].parameters["depot"] == "http://10.0.0.1:8641"
        courier = bench[f"{robot}/courier"].parameters
        assert (courier["store"], courier["depot"]) == (
            bench[f"{robot}/recorder"].parameters["store"],
            "http://10.0.0.1:8641",
        )
    assert "depot" not in nodes_on(lab, "office")["near/policy_runner"].parameters


def test_nodes_of_the_lab_know_the_other_machines_and_those_of_an_arm_do_not(lab: str) -> None:
    bench = nodes_on(lab, "bench")
    lab_side = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": "10.0.0.1;attic.local"}
    assert dict(bench["left/policy_runner"].environment) == lab_side
    guard = bench["left/arm_guard"].environment
    assert guard["ROS_STATIC_PEERS"] == ""
    assert guard["ROS_DOMAIN_ID"] != "0"


def test_collecting_a_first_validation_set_carries_episodes_too(lab: str) -> None:
    assert nodes_on(lab, "office", mode="collect").keys() >= {"depot", "near/collector"}
    assert {"left/collector", "left/courier"} <= nodes_on(lab, "bench", mode="collect").keys()


def test_a_machine_is_known_by_its_host_name_and_says_what_other_terminals_need(lab: str) -> None:
    here = find_here(load_lab(lab), "", lambda: "bench.example.org")
    assert (here.name, here.robots, here.is_central) == ("bench", ("left", "right"), False)
    (line,) = here.advice
    assert line.endswith("ROS_STATIC_PEERS='10.0.0.1;attic.local'")
    with pytest.raises(SetupError, match="machine 'cellar' is not in the lab file, which has office, bench, attic"):
        find_here(load_lab(lab), "", lambda: "cellar")
    with pytest.raises(SetupError, match="names no machines"):
        find_here(load_lab("lab.yaml"), "bench")
    assert find_here(load_lab("lab.yaml"), "").advice == ()


def test_a_robot_of_another_machine_is_not_started_here(lab: str) -> None:
    with pytest.raises(SetupError, match="robot 'top' is of machine attic, and this is bench"):
        nodes_on(lab, "bench", robots="top")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (", is_central: true", "", "0 of them are central"),
        ("{address: 10.0.0.2}", "{address: 10.0.0.2, is_central: true}", "2 of them are central"),
        ("machine: attic", "machine: cellar", "machine 'cellar' is not among"),
        ("10.0.0.2", "'10.0.0.2;10.0.0.9'", "expected an IP address or a host name"),
    ],
)
def test_machines_that_are_not_in_order_are_refused(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    (tmp_path / "lab.yaml").write_text(LAB.replace(before, after, 1))
    with pytest.raises(ConfigError, match=complaint):
        load_lab(tmp_path / "lab.yaml")
