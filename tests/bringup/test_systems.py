"""Named systems, their arguments, and the domain they run in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opc_ros.bringup.config_files import find_config
from opc_ros.bringup.domain import claim_domain, read_domain
from opc_ros.bringup.lab import load_arm, load_scheduler_rules
from opc_ros.bringup.nodes import PROGRAMS, NodeSpec
from opc_ros.bringup.system import System, parse_arguments
from opc_ros.bringup.systems import SYSTEMS, find_system
from opc_ros.deployment.signing import find_signer, login_name
from opc_ros.errors import ConfigError, SetupError


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
    gate.write_text(
        find_config("gate.yaml").read_text().replace("prior: 1.0", "prior: 0.9")
        + "top_k: {k: 5, confidence: 0.8, doubt: 0.1}\n"
    )
    scorer = next(node for node in find_system("twin").nodes({"gate_config": str(gate)}) if node.program == "scorer")
    assert (scorer.parameters["top_k"], scorer.parameters["metric"]) == (5, "soft_opc_over_spread")
    assert scorer.parameters["prior"] == 0.9


def test_a_real_arms_guard_and_recorder_go_by_the_arms_own_file(tmp_path: Path) -> None:
    arm = tmp_path / "arm.yaml"
    given = find_config("arm.yaml").read_text().replace('namespace: ""', "namespace: lbr")
    arm.write_text(given)
    nodes = find_system("hardware").nodes({"arm_config": str(arm)})
    by_label = {node.label: node.parameters for node in nodes}
    assert by_label["arm1/arm_guard"]["arm_config"] == str(arm)
    topic = by_label["arm1/recorder"]["image_topic"]
    assert str(topic).startswith("/lbr/camera/")


def test_each_robot_of_a_lab_has_its_own_arm_camera_rungs_store_and_widths(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "store: /data/all\n"
        "robots:\n"
        "  left: {arm: arm.yaml, namespace: lbr1, rungs: [reduced], gripper: {held_from_m: 0.006}, store: /data/left}\n"
        "  right: {arm: arm.yaml, namespace: lbr2, camera: /eye/image, rungs: [full]}\n"
    )
    nodes = {node.label: node.parameters for node in find_system("hardware").nodes({"lab": str(lab)})}
    assert (nodes["left/recorder"]["store"], nodes["right/recorder"]["store"]) == ("/data/left", "/data/all")
    assert nodes["left/recorder"]["image_topic"] == "/lbr1/camera/image/compressed"
    assert nodes["right/recorder"]["image_topic"] == "/eye/image"
    assert [nodes[f"{robot}/policy_runner"]["rungs"] for robot in ("left", "right")] == ["reduced", "full"]
    # One source for the widths: the recorder's rule and the arm's use the same numbers.
    for robot, expected in (("left", 0.006), ("right", 0.008)):
        arm_config = str(nodes[f"{robot}/policy_runner"]["arm_config"])
        assert load_arm(arm_config, robot).gripper.held_from_m == expected
        assert nodes[f"{robot}/recorder"]["held_from_m"] == expected
    given = {"lab": str(lab), "robots": "right", "store": "/data/other"}
    labels = {node.label: node.parameters for node in find_system("hardware").nodes(given)}
    assert "left/recorder" not in labels
    assert labels["right/recorder"]["store"] == "/data/other"


def test_two_robots_never_command_one_arm(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    robots = "".join(f"  {name}: {{arm: arm.yaml, namespace: lbr, rungs: [full]}}\n" for name in ("left", "right"))
    lab.write_text(f"robots:\n{robots}")
    with pytest.raises(SetupError, match="left and right both command /lbr/joint_trajectory_controller"):
        find_system("hardware").nodes({"lab": str(lab)})
    arm = tmp_path / "arm.yaml"
    arm.write_text(find_config("arm.yaml").read_text().replace('namespace: ""', "namespace: lbr"))
    for system, robots in (("hardware", "arm1,arm2"), ("collect", "a,b")):
        given = {"arm_config": str(arm), "robots": robots}
        if system == "hardware":
            given["lab"] = "lab_seven.yaml"
        with pytest.raises(SetupError, match="both command"):
            find_system(system).nodes(given)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("robots: {}", "robots: expected at least one"),
        ("robots: {arm 1: {arm: arm.yaml, rungs: [full]}}", "robot 'arm 1': expected a name"),
        ("robots: {a: {arm: arm.yaml, rungs: [fast]}}", "got 'fast', expected one of"),
        ("robots: {a: {arm: arm.yaml, rungs: [full], gripper: {grip: 1}}}", "gripper: unknown key 'grip'"),
        ("robots: {a: {arm: none.yaml, rungs: [full]}}", "none.yaml: no such file"),
        ("robots: {a: {arm: arm.yaml, rungs: [full], gripper: {held_from_m: 0.2}}}", "held from 0.2 to 0.075"),
    ],
)
def test_a_lab_file_that_is_not_in_order_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "lab.yaml").write_text(text + "\n")
    with pytest.raises((SetupError, ConfigError), match=complaint) as refused:
        find_system("hardware").nodes({"lab": str(tmp_path / "lab.yaml")})
    assert "\n" not in str(refused.value)


def test_a_robot_that_the_lab_file_does_not_name_is_refused() -> None:
    with pytest.raises(SetupError, match=r"robot 'arm9' is not in lab_twin.yaml, which has arm1, arm2"):
        find_system("twin").nodes({"robots": "arm9"})


def test_rules_that_name_other_robots_than_the_lab_are_refused(tmp_path: Path) -> None:
    rules = tmp_path / "scheduler.yaml"
    rules.write_text(find_config("scheduler.yaml").read_text() + "robots: {arm1: {rungs: [full]}}\n")
    with pytest.raises(ConfigError, match="names other robots or rungs than"):
        load_scheduler_rules(rules, find_config("lab.yaml"))


def test_a_twin_lab_is_prepared_once_and_a_deleted_key_stays_deleted(tmp_path: Path) -> None:
    given = {name: str(tmp_path / name) for name in ("store", "candidates", "deployment", "state")}
    twin = find_system("twin")
    assert [line.split()[1].rstrip(",") for line in twin.prepare(given)] == [
        *(given["store"], given["candidates"], f"{given['deployment']}/keys"),
        # So that the person at this terminal can sign without being asked anything.
        f"{given['deployment']}/keys/{login_name()}.person.pem",
    ]
    assert find_signer(tmp_path / "deployment" / "keys").person == login_name()
    (trusted,) = (tmp_path / "state" / "arm2" / "keys").glob("*.public.pem")
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


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_params_file_a_log_level_and_simulated_time_reach_every_node(system: System, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("/**:\n  ros__parameters: {robot_description: x}\n")
    plain = system.nodes({})
    given = system.nodes({"params_file": str(file), "log_level": "debug", "use_sim_time": "true"})
    assert [node.label for node in given] == [node.label for node in plain]
    for node in given:
        words = node.command()
        assert words[-4:] == ["--params-file", str(file), "--log-level", "debug"]
        assert "use_sim_time:=true" in words
    assert not any("--params-file" in node.command() or "use_sim_time:=true" in node.command() for node in plain)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"params_file": "/no/such.yaml"}, "params_file:=/no/such.yaml: no such file"),
        ({"log_level": "loud"}, "log_level:=loud: expected one of debug"),
        ({"use_sim_time": "yes"}, "use_sim_time:=yes: expected true or false"),
    ],
)
def test_options_of_nodes_that_make_no_sense_are_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint):
        find_system("scripted").nodes(given)
