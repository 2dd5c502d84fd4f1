"""SROS2 policies: their shape, and what each process may do by hand."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from opc_ros.bringup.graph import lab_graph
from opc_ros.bringup.lab import load_arm, load_lab
from opc_ros.bringup.nodes import PROGRAMS
from opc_ros.bringup.security_policy import write_policy
from opc_ros.cli.main import main

# By SROS2's policy schema, version 0.2.0: group -> its members and permissions.
GROUPS = {
    "topics": ("topic", {"publish", "subscribe"}),
    "services": ("service", {"request", "reply"}),
    "actions": ("action", {"call", "execute"}),
}


@pytest.fixture(scope="module")
def policy() -> ElementTree.Element:
    arms = {robot: load_arm("lab.yaml", robot) for robot in load_lab("lab.yaml").robots}
    return ElementTree.fromstring(write_policy(lab_graph(arms)).encode())


def allowed(policy: ElementTree.Element, enclave: str, group: str, permission: str) -> set[str]:
    found = policy.findall(f"enclaves/enclave[@path='{enclave}']/profiles/profile/{group}[@{permission}='ALLOW']/*")
    return {element.text or "" for element in found}


def test_the_policy_has_the_shape_of_the_schema(policy: ElementTree.Element) -> None:
    assert (policy.tag, policy.attrib) == ("policy", {"version": "0.2.0"})
    (enclaves,) = policy
    assert enclaves.tag == "enclaves"
    paths = [enclave.attrib["path"] for enclave in enclaves]
    assert len(set(paths)) == len(paths)
    for enclave in enclaves:
        (profiles,) = enclave
        assert (enclave.tag, profiles.tag, set(enclave.attrib)) == ("enclave", "profiles", {"path"})
        for profile in profiles:
            assert (profile.tag, set(profile.attrib)) == ("profile", {"ns", "node"})
            assert profile.attrib["ns"].startswith("/")
            for group in profile:
                member, permissions = GROUPS[group.tag]
                ((permission, value),) = group.attrib.items()
                assert permission in permissions
                assert value == "ALLOW"
                assert len(group), "an empty group"
                for element in group:
                    assert (element.tag, element.attrib) == (member, {})
                    assert (element.text or "").startswith("/")


def test_every_program_has_an_enclave_but_the_scripted_arm(policy: ElementTree.Element) -> None:
    paths = {enclave.attrib["path"] for enclave in policy.iter("enclave")}
    assert {path.split("/")[-1] for path in paths} - {"opc"} == set(PROGRAMS) - {"scripted_arm"}


def test_no_process_of_the_labs_domain_but_the_gateway_may_command_an_arm(policy: ElementTree.Element) -> None:
    topic = "/arm1/joint_trajectory_controller/joint_trajectory"
    paths = [enclave.attrib["path"] for enclave in policy.iter("enclave")]
    may = {path for path in paths if topic in allowed(policy, path, "topics", "publish")}
    assert may == {"/arm1/arm_gateway", "/arm1/arm_guard"}
    assert allowed(policy, "/arm1/policy_runner", "actions", "execute") == {"/arm1/run_episodes"}
    assert allowed(policy, "/scheduler", "actions", "call") == {"/arm1/run_episodes", "/twin/run_episodes"}
    assert "/deployment/heartbeat" in allowed(policy, "/scheduler", "topics", "publish")


def test_a_lab_with_a_namespace_has_all_but_what_drivers_name_in_full_below_it(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text("robots: {arm1: {arm: arm.yaml, namespace: lbr, camera: /eye/image, rungs: [full]}}\n")
    policy = ElementTree.fromstring(write_policy(lab_graph({"arm1": load_arm(lab, "arm1", "lab_a")}, "lab_a")).encode())
    assert all(each.attrib["path"].startswith("/lab_a/") for each in policy.iter("enclave"))
    assert {each.attrib["ns"] for each in policy.iter("profile")} == {"/lab_a", "/lab_a/arm1"}
    named = {each.text or "" for kind in ("topic", "service", "action") for each in policy.iter(kind)}
    outside = {name for name in named if not name.startswith("/lab_a/")}
    assert outside == {"/rosout", "/parameter_events", "/clock", "/eye/image"}
    assert "/lab_a/lbr/joint_states" in allowed(policy, "/lab_a/arm1/arm_guard", "topics", "subscribe")
    assert "/lab_a/deployment/revocations" in allowed(policy, "/lab_a/arm1/arm_gateway", "topics", "subscribe")
    assert allowed(policy, "/lab_a/scheduler", "actions", "call") == {"/lab_a/arm1/run_episodes"}


def test_the_command_writes_it_for_a_lab_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["security", "policy", "--lab", "lab_twin.yaml", "--out", str(tmp_path / "policy.xml")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/policy.xml: policies for arm1, arm2\n"
    assert "/arm2/arm_gateway" in (tmp_path / "policy.xml").read_text()
    assert main(["security", "policy", "--out", str(tmp_path / "no" / "policy.xml")]) == 1
