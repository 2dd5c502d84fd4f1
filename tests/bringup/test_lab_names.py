"""Names of labs that share a ROS domain, and the domains they take on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.bringup.domain import claim_domain, claim_lab, share_out_domains
from opc_ros.bringup.lab import load_arm
from opc_ros.bringup.lab_names import NAMESPACE, in_lab, lab_of, read_namespace, robot_of
from opc_ros.bringup.system import System
from opc_ros.bringup.systems import SYSTEMS, find_system
from opc_ros.errors import SetupError


def test_every_name_of_a_lab_is_below_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAMESPACE, raising=False)
    assert (in_lab("/deployment/status"), in_lab("arm1")) == ("/deployment/status", "arm1")
    monkeypatch.setenv(NAMESPACE, "/lab_a/")
    assert (in_lab("/deployment/status"), in_lab("arm1")) == ("/lab_a/deployment/status", "lab_a/arm1")
    assert in_lab("/ranking", "site/lab_b") == "/site/lab_b/ranking"
    assert in_lab("/ranking", "") == "/ranking"


@pytest.mark.parametrize("text", ["lab a", "1lab", "lab//a", "lab-a", "läb"])
def test_a_namespace_that_ros_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match=f"OPC_NAMESPACE is '{text}', expected names of letters"):
        read_namespace({NAMESPACE: text})


@pytest.mark.parametrize(
    ("namespace", "topic", "robot"),
    [
        ("", "/arm1/robot/status", "arm1"),
        ("", "/lab_a/arm1/robot/status", ""),
        ("lab_a", "/lab_a/arm1/robot/status", "arm1"),
        ("lab_a", "/lab_b/arm1/robot/status", ""),
        ("lab_a", "/arm1/robot/status", ""),
        ("lab_a", "/lab_a/robot/status", ""),
        ("lab", "/lab_a/arm1/robot/status", ""),
        ("site/lab_a", "/site/lab_a/arm1/robot/status", "arm1"),
        ("site", "/site/lab_a/arm1/robot/status", ""),
    ],
)
def test_a_topic_belongs_to_a_robot_of_exactly_one_lab(namespace: str, topic: str, robot: str) -> None:
    assert robot_of(topic, 2, namespace) == robot


def test_the_lab_of_a_robots_topic_is_what_stands_before_the_robot() -> None:
    assert lab_of("/arm1/robot/status", 2) == ""
    assert lab_of("/site/lab_a/arm1/robot/status", 2) == "site/lab_a"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_namespace_moves_every_node_and_reaches_every_process(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NAMESPACE, raising=False)
    plain, moved = system.nodes({}), system.nodes({"namespace": "/lab_a"})
    assert [node.label for node in moved] == [f"lab_a/{node.label}" for node in plain]
    assert all(node.environment[NAMESPACE] == "lab_a" for node in moved)
    assert not any(NAMESPACE in node.environment for node in plain)
    monkeypatch.setenv(NAMESPACE, "lab_a")
    assert system.nodes({}) == moved
    with pytest.raises(SetupError, match="namespace:= is 'lab a', expected"):
        system.nodes({"namespace": "lab a"})


def test_what_a_lab_is_called_is_said_for_other_terminals() -> None:
    scripted = find_system("scripted")
    assert scripted.prepare({}) == ()
    assert scripted.prepare({"namespace": "lab_a"}) == ("lab lab_a; in other terminals: export OPC_NAMESPACE=lab_a",)


def test_driver_and_camera_are_below_the_lab_unless_their_names_begin_with_a_slash(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "robots:\n"
        "  arm1: {arm: arm.yaml, namespace: lbr, camera: /eye/image, rungs: [full]}\n"
        "  arm2: {arm: arm.yaml, namespace: /other, rungs: [full]}\n"
    )
    arm1 = load_arm(lab, "arm1", "lab_a").with_full_names()
    assert (arm1.joint_states, arm1.camera.topic) == ("/lab_a/lbr/joint_states", "/eye/image")
    assert load_arm(lab, "arm2", "lab_a").with_full_names().joint_states == "/other/joint_states"
    nodes = {n.label: n for n in find_system("hardware").nodes({"lab": str(lab), "namespace": "lab_a"})}
    assert nodes["lab_a/arm1/recorder"].parameters["joint_topic"] == "/lab_a/lbr/joint_states"


def test_arms_of_labs_that_share_a_domain_have_domains_of_their_own() -> None:
    given = {"arm1": None, "arm2": None}
    assert share_out_domains(0, given) == {"arm1": 101, "arm2": 100}
    # gzip's checksum of these names modulo 101 is 45 and 31; domains are counted down from 101.
    assert share_out_domains(0, given, "lab_a") == {"arm1": 56, "arm2": 55}
    assert share_out_domains(0, given, "lab_b") == {"arm1": 70, "arm2": 69}


def test_labs_share_a_domain_by_namespace_and_no_domain_of_an_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with claim_lab(7, "", [101], "opc up twin"), claim_lab(7, "lab_a", [90], "opc up hardware"):
        for namespace, arms, complaint in (
            ("lab_a", [80], "ROS domain 7 is in use by opc up hardware .*: stop it, or .*namespace:=NAME"),
            ("lab_b", [101], "ROS domain 101, meant for an arm, is in use by opc up twin .*arm_domain in the lab file"),
            ("lab_b", [7], "ROS domain 7, meant for an arm, is in use by"),
        ):
            with pytest.raises(SetupError, match=complaint), claim_lab(7, namespace, arms, "x"):
                pass
        for taken in (7, 101, 90):
            with pytest.raises(SetupError, match=f"ROS domain {taken} is in use by"), claim_domain(taken, "opc demo"):
                pass
        with claim_lab(7, "lab_b", [91], "opc up twin"):
            pass
