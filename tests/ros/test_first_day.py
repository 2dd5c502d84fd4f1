"""A lab's first day: a twin brought up like hardware, behind driver topics, is recorded under a person's permit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from opc_interfaces.msg import GraspStep
from opc_interfaces.srv import ChooseAction
from sensor_msgs.msg import Joy

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import Supervisor
from opc_ros.bringup.systems import find_system
from opc_ros.cli.main import main
from opc_ros.deployment.keys import create_keys, export_public_keys
from opc_ros.deployment.signing import make_person_key
from opc_ros.grasp import GraspAction
from opc_ros.ros import convert, topics
from opc_ros.store import open_store
from tests.domains import own_domain, take_domain
from tests.ros.spun_node import SpunNode
from tests.ros.twin_rig import ROBOT, ROOT, TwinProcess

pytestmark = pytest.mark.ros


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An arm that cannot lay out its bin, its lab file, and ada, whose permission it needs."""
    folder = tmp_path_factory.mktemp("lab")
    arm = yaml.safe_load((ROOT / "config" / "arm_twin.yaml").read_text())
    del arm["lay_out"]
    arm["measurement_timeout_s"] = 20.0
    (folder / "arm.yaml").write_text(yaml.safe_dump(arm))
    create_keys(folder / "deployment" / "keys")
    make_person_key(folder / "deployment" / "keys", "ada")
    export_public_keys(folder / "deployment" / "keys", folder / "robots" / ROBOT / "keys")
    with own_domain(), take_domain() as arm_domain:
        robots = {ROBOT: {"arm": "arm.yaml", "rungs": ["reduced", "full"], "arm_domain": int(arm_domain)}}
        (folder / "lab.yaml").write_text(yaml.safe_dump({"store": str(folder / "store"), "robots": robots}))
        twin = TwinProcess(domain=int(arm_domain), arm_config=folder / "arm.yaml")
        yield folder
        assert twin.stop() == 0


def sign(lab: Path, policy: str, episodes: int) -> None:
    words = ["--state", str(lab / "deployment"), "--robot", ROBOT, "--policy", policy, "--speed", "0.5"]
    out = lab / "robots" / ROBOT / "behaviour.permit"
    assert main(["permit", *words, "--episodes", str(episodes), "--out", str(out)]) == 0


def bring_up(lab: Path, **arguments: str) -> tuple[int, list[str]]:
    """`opc up hardware mode:=collect` until the collector has ended; returns its exit code and all log lines."""
    given = {"lab": str(lab / "lab.yaml"), "state": str(lab / "robots"), "mode": "collect", **arguments}
    # A twin and its commander on a busy machine pause for longer than a real arm's may; its guard is tested elsewhere.
    patience = {"silence_s": 20.0, "stale_s": 20.0}
    nodes: list[NodeSpec] = [
        replace(node, parameters=node.parameters | (patience if node.program == "arm_gateway" else {}))
        for node in find_system("hardware").nodes(given)
        if node.program != "arm_guard"
    ]
    lines: list[str] = []
    ended = threading.Event()

    def note(line: str) -> None:
        lines.append(line)
        if line.endswith(("collector] finished", "] finished")) and "collector" in line:
            ended.set()

    with Supervisor(nodes, note) as running:
        code = running.wait(until=ended.is_set)
    return code, lines


def test_an_empty_store_is_filled_with_labelled_blind_grasps_under_a_permit(lab: Path) -> None:
    sign(lab, "blind_grasps", episodes=3)
    code, lines = bring_up(lab, object_set="first bin")
    assert code == 0, lines
    with open_store(lab / "store") as store:
        episodes = list(store.episodes())
        assert [each.behaviour_policy for each in episodes] == ["blind_grasps"] * 3
        assert {each.permit_id[:10] for each in episodes} == {"behaviour-"}
        first = store.read(episodes[0].id)
    assert (first.object_set, first.steps[0].action.open_gripper) == ("first bin", True)
    assert any(step.action.close_gripper for step in first.steps)
    # Gripper and images were both consulted; if they disagreed, the log says that a person has to decide.
    asked = [line for line in lines if "a person has to label" in line]
    assert len([each for each in episodes if not each.is_labelled]) == len(asked)
    # Its three episodes have been played: nothing moves under it any more.
    _, lines = bring_up(lab)
    assert any("all 3 episodes have been used" in line for line in lines)
    with open_store(lab / "store") as store:
        assert len(list(store.episodes())) == 3


def test_nothing_moves_without_a_permit_for_what_is_to_play(lab: Path) -> None:
    sign(lab, "blind_grasps", episodes=3)
    code, lines = bring_up(lab, policy="teleoperation")
    assert code == 1
    assert any("is for policy blind_grasps, expected teleoperation" in line for line in lines)


def newest_actions(lab: Path, policy: str) -> list[GraspAction]:
    with open_store(lab / "store") as store:
        newest = max((each for each in store.episodes() if each.behaviour_policy == policy), key=lambda e: e.id)
        return [step.action for step in store.read(newest.id).steps]


def test_a_policy_of_your_own_is_asked_over_a_service(lab: Path) -> None:
    script = [
        GraspAction(displacement_m=(0.02, 0.0, -0.03), open_gripper=True),
        GraspAction(close_gripper=True),
        GraspAction(terminate=True),
    ]
    asked: list[ChooseAction.Request] = []

    def answer(request: ChooseAction.Request, response: ChooseAction.Response) -> ChooseAction.Response:
        asked.append(request)
        response.success = True
        response.action = convert.action_to_msg(
            script[request.step], robot=ROBOT, episode_id="", index=0, chosen_ns=1, observed_ns=1
        )
        return response

    sign(lab, "service:my_policy", episodes=1)
    with closing(SpunNode("own", ROBOT).start()) as own:
        own.node.create_service(ChooseAction, "my_policy", answer)
        code, lines = bring_up(lab, policy="service:my_policy", judge="gripper", seed="7")
    assert code == 0, lines
    assert newest_actions(lab, "my_policy") == script
    assert [(request.seed, request.step) for request in asked] == [(7, 0), (7, 1), (7, 2)]
    assert bytes(asked[0].image[:2]) == b"\xff\xd8", "a JPEG"
    assert asked[0].tool.position_m.z == pytest.approx(0.22, abs=0.01)


def test_a_person_steers_with_a_gamepad_and_labels_later(lab: Path) -> None:
    sign(lab, "teleoperation", episodes=1)
    steps: list[GraspStep] = []
    presses = itertools.cycle((0, 1))

    def steer() -> None:
        """Forward for two steps, then done; pressed and released again until it is received."""
        is_done = len(steps) >= 2
        buttons = [0, 0, 0, next(presses) if is_done else 0]
        sticks.publish(Joy(axes=[0.0, 0.0 if is_done else 1.0, 0.0, 0.0, 0.0], buttons=buttons))

    with closing(SpunNode("own", ROBOT).start()) as own:
        sticks = own.node.create_publisher(Joy, "joy", 10)
        own.node.create_subscription(GraspStep, "grasp/step", steps.append, topics.RECORDED)
        own.node.create_timer(0.05, steer)
        code, lines = bring_up(lab, policy="teleoperation", judge="person")
    assert code == 0, lines
    actions = newest_actions(lab, "teleoperation")
    assert actions[0].displacement_m[0] > 0.02
    assert actions[-1].terminate
    with open_store(lab / "store") as store:
        assert not max(store.episodes(), key=lambda e: e.id).is_labelled
