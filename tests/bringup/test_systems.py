"""Named systems, their arguments, and the domain they run in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opc_ros.bringup.config_files import find_config
from opc_ros.bringup.domain import claim_domain, read_domain
from opc_ros.bringup.nodes import PROGRAMS, NodeSpec
from opc_ros.bringup.system import parse_arguments
from opc_ros.bringup.systems import SYSTEMS, find_system
from opc_ros.errors import SetupError


def test_each_robot_gets_its_own_namespace() -> None:
    nodes = find_system("scripted").nodes({"robots": "arm1, arm2", "seed": "4"})
    assert [node.label for node in nodes] == [
        "arm1/recorder",
        "arm1/scripted_arm",
        "arm2/recorder",
        "arm2/scripted_arm",
    ]
    assert [node.parameters["seed"] for node in nodes if node.program == "scripted_arm"] == [4, 5]


def test_command_line_carries_namespace_remappings_and_parameters() -> None:
    node = NodeSpec("recorder", "arm1", {"robot": "arm1", "rate_hz": 2.5, "autostart": True}, {"image": "/cam"})
    assert node.command() == [
        *(sys.executable, "-u", "-m", PROGRAMS["recorder"], "--ros-args"),
        *("--remap", "image:=/cam", "--remap", "__ns:=/arm1"),
        *("--param", 'robot:="arm1"', "--param", "rate_hz:=2.5", "--param", "autostart:=true"),
    ]


def test_behaviour_policies_play_in_a_twin_lab_only_where_asked_for() -> None:
    twin = find_system("twin")
    assert not any(node.program == "behaviour" for node in twin.nodes({}))
    players = [node for node in twin.nodes({"collect": "7"}) if node.program == "behaviour"]
    assert [(node.namespace, node.parameters["episodes"]) for node in players] == [("arm1", 7), ("arm2", 7)]
    assert players[0].parameters["seed"] != players[1].parameters["seed"]


def test_the_scorer_ranks_by_what_the_gate_asks_for(tmp_path: Path) -> None:
    gate = tmp_path / "gate.yaml"
    gate.write_text(find_config("gate.yaml").read_text().replace("top_k: 3", "top_k: 5"))
    scorer = next(node for node in find_system("twin").nodes({"gate_config": str(gate)}) if node.program == "scorer")
    assert (scorer.parameters["top_k"], scorer.parameters["metric"]) == (5, "soft_opc")


def test_a_real_arms_guard_and_recorder_go_by_the_arms_own_file(tmp_path: Path) -> None:
    arm = tmp_path / "arm.yaml"
    given = find_config("arm.yaml").read_text().replace('namespace: ""', "namespace: lbr")
    arm.write_text(given)
    nodes = find_system("hardware").nodes({"arm_config": str(arm)})
    by_label = {node.label: node.parameters for node in nodes}
    assert by_label["arm1/arm_guard"]["arm_config"] == str(arm)
    topic = by_label["arm1/recorder"]["image_topic"]
    assert str(topic).startswith("/lbr/camera/")


def test_a_twin_lab_is_furnished_once_and_a_deleted_key_stays_deleted(tmp_path: Path) -> None:
    given = {name: str(tmp_path / name) for name in ("store", "candidates", "deployment", "state")}
    twin = find_system("twin")
    assert [line.split()[1].rstrip(",") for line in twin.prepare(given)] == [
        *(given["store"], given["candidates"], f"{given['deployment']}/keys")
    ]
    (trusted,) = (tmp_path / "state" / "arm2" / "keys").iterdir()
    trusted.unlink()
    assert twin.prepare(given) == ()
    assert not trusted.exists()
    assert find_system("hardware").prepare({}) == ()


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_every_system_builds_with_its_defaults(system: object) -> None:
    assert system.nodes({})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"speed": "1"}, "scripted: unknown argument 'speed', expected one of robots, store"),
        ({"robots": ""}, "robots:=: expected different names"),
        ({"robots": "a,a"}, "robots:=a,a: expected different names"),
        ({"robots": "arm 1"}, "robot 'arm 1': expected a name of letters"),
        ({"episodes": "many"}, "episodes:=many: expected a whole number"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint):
        find_system("scripted").nodes(given)


def test_unknown_system_and_malformed_argument_are_named() -> None:
    with pytest.raises(SetupError, match="no system is called 'nope', expected one of scripted"):
        find_system("nope")
    with pytest.raises(SetupError, match="argument 'robots=arm1': expected name:=value"):
        parse_arguments(["robots=arm1"])
    assert parse_arguments(["a:=1", "b:=x:=y"]) == {"a": "1", "b": "x:=y"}


def test_unknown_program_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="'toaster', expected one of"):
        NodeSpec("toaster")


def test_domain_is_a_number_ros_can_use() -> None:
    assert read_domain({}) == 0
    assert read_domain({"ROS_DOMAIN_ID": "42"}) == 42
    for text in ("-1", "233", "seven"):
        with pytest.raises(SetupError, match=f"ROS_DOMAIN_ID is '{text}', expected a whole number from 0 to 232"):
            read_domain({"ROS_DOMAIN_ID": text})


def test_second_system_in_a_domain_is_refused_by_name(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with claim_domain(7, "opc up scripted"):
        with (
            pytest.raises(SetupError, match=r"ROS domain 7 is in use by opc up scripted \(process \d+\)"),
            claim_domain(7, "x"),
        ):
            pass
        with claim_domain(8, "opc up twin"):
            pass
    with claim_domain(7, "opc up scripted"):
        pass
