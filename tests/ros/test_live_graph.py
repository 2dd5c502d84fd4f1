"""The list of nodes and topics compared with the graph of a running twin lab: nothing happens that it does not name."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy")

import rclpy
from rclpy.context import Context
from rclpy.node import Node

from opc_ros.bringup.graph import NodeGraph, lab_graph
from opc_ros.bringup.lab import load_arm
from opc_ros.bringup.supervisor import Supervisor
from opc_ros.bringup.systems import find_system
from tests.domains import own_domain, take_domain
from tests.ros.twin_rig import PATIENCE_S

pytestmark = pytest.mark.ros
# In the lab's domain and in the arm's: the nodes that a twin lab with a behaviour policy starts.
IN_LAB = {
    *("/scorer", "/scheduler", "/scheduler_halt", "/console", "/arm1/recorder", "/arm1/policy_runner"),
    *("/arm1/arm_gateway", "/arm1/behaviour", "/arm1/arm"),
}
AT_ARM = {"/arm1/twin", "/arm1/arm_gateway"}


@pytest.fixture
def domains(tmp_path: Path) -> Iterator[tuple[int, int]]:
    with own_domain() as lab, take_domain() as arm:
        robots = {"arm1": {"arm": "arm_twin.yaml", "rungs": ["twin", "reduced", "full"], "arm_domain": int(arm)}}
        (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"store": str(tmp_path / "store"), "robots": robots}))
        yield int(lab), int(arm)


def look(node: Node) -> Iterator[tuple[str, str, str]]:
    """Every node in the domain, what it does, and the name it does it with; actions as SROS2 names them."""
    for name, space in node.get_node_names_and_namespaces():
        full = f"{space.rstrip('/')}/{name}"
        if name == "onlooker":
            continue
        yield full, "is there", ""
        for does, ask in (
            ("publishes", node.get_publisher_names_and_types_by_node),
            ("hears", node.get_subscriber_names_and_types_by_node),
            ("offers", node.get_service_names_and_types_by_node),
            ("calls", node.get_client_names_and_types_by_node),
        ):
            for target, _kinds in ask(name, space):
                action, is_action, _ = target.partition("/_action/")
                if is_action:
                    is_server = (does == "publishes") or (does == "offers")
                    yield full, "executes" if is_server else "asks", action
                else:
                    yield full, does, target


@pytest.mark.parametrize("namespace", ["", "lab_a"])
def test_every_name_that_a_running_lab_uses_is_on_the_list(
    domains: tuple[int, int], tmp_path: Path, namespace: str
) -> None:
    above = f"/{namespace}" if namespace else ""
    given = {name: str(tmp_path / name) for name in ("store", "candidates", "scores", "deployment", "state")}
    given |= {"lab": str(tmp_path / "lab.yaml"), "collect": "50", "image_size": "32", "console": "8640"}
    given["namespace"] = namespace
    twin = find_system("twin")
    twin.prepare(given)
    listed: dict[str, list[NodeGraph]] = {}
    for each in lab_graph({"arm1": load_arm(tmp_path / "lab.yaml", "arm1", namespace)}, namespace):
        listed.setdefault(each.full_name, []).append(each)
    seen: list[set[tuple[str, str, str]]] = [set(), set()]
    lines: list[str] = []
    is_over = threading.Event()

    def is_complete() -> bool:
        for wanted, found in zip((IN_LAB, AT_ARM), seen, strict=True):
            if not {above + node for node in wanted} <= {node for node, _, _ in found}:
                return False
        robot = f"{above}/arm1"
        return (f"{robot}/arm", "hears", f"{robot}/joint_states") in seen[0] and (
            f"{robot}/arm_gateway",
            "publishes",
            f"{robot}/camera/image/compressed",
        ) in seen[0]

    contexts = [Context() for _ in domains]
    for context, domain in zip(contexts, domains, strict=True):
        rclpy.init(args=[], context=context, domain_id=domain)
    nodes = [Node("onlooker", context=context, use_global_arguments=False) for context in contexts]
    deadline_s = time.monotonic() + 2 * PATIENCE_S  # a whole lab starts

    def look_on() -> bool:
        for node, found in zip(nodes, seen, strict=True):
            found.update(look(node))
        assert time.monotonic() < deadline_s, (seen, lines[-20:])
        return is_complete() or is_over.is_set()

    try:
        with Supervisor(twin.nodes(given), lines.append) as running:
            running.wait(until=look_on)
    finally:
        for node, context in zip(nodes, contexts, strict=True):
            node.destroy_node()
            rclpy.try_shutdown(context=context)
    assert is_complete(), "\n".join(lines)
    unlisted = {
        (node, does, name)
        for found in seen
        for node, does, name in found
        if does != "is there" and not any(name in each.resolve(getattr(each, does)) for each in listed.get(node, []))
    }
    assert unlisted == set()
    of_ros = {"", "/rosout", "/parameter_events", "/clock"}
    assert {name for found in seen for _, _, name in found if not name.startswith(above or "/")} <= of_ros
