"""No message, request or file ends a node: what fails is counted on /diagnostics, and the node answers again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from opc_interfaces.srv import GetDeployment, SubmitStatement

from opc_ros.deployment.statement import RequestBody
from opc_ros.ros import topics
from tests.deployment.lab import make_lab, say, scheduler_parameters
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]


def values(heard: list[DiagnosticArray], name: str) -> dict[str, str]:
    found = [status for array in heard for status in array.status if status.name == name]
    return {pair.key: pair.value for pair in found[-1].values} if found else {}


def test_a_recorder_answers_a_transition_that_does_not_exist_and_lives_on(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    heard = probe.listen(DiagnosticArray, "/diagnostics", topics.RECORDED)
    start("recorder", "/arm1", store=str(tmp_path / "store"))
    answer = probe.call(ChangeState, "/arm1/recorder/change_state", transition=Transition(id=99))
    assert not answer.success
    assert probe.call(GetState, "/arm1/recorder/get_state").current_state.label == "active"
    probe.until(
        lambda: values(heard, "arm1/recorder: callbacks").get("callbacks failed") == "1", "the failure is not counted"
    )


def test_a_scheduler_refuses_a_candidate_of_300_letters_and_lives_on(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    start("scheduler", "/", **scheduler_parameters(tmp_path))
    for statement in (say(tmp_path, "request", RequestBody("c" * 300)), "[" * 200_000):
        answer = probe.call(SubmitStatement, "/deployment/statement", statement=statement)
        assert (answer.success, "\n" in answer.message) == (False, False)
    assert probe.call(GetDeployment, "/deployment/status").success


def test_a_callback_that_raises_is_counted_and_the_next_one_runs(ros_domain: int) -> None:
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node

    from opc_ros.ros.node_health import NodeHealth, spin_some
    from opc_ros.ros.steady import create_steady_timer

    context = Context()
    rclpy.init(args=[], context=context)
    node = Node("brave", context=context)
    health = NodeHealth(node)
    runs: list[Any] = []

    def fail() -> None:
        runs.append(None)
        raise RecursionError("200000 brackets")

    create_steady_timer(node, 0.01, fail)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    while len(runs) < 3:
        spin_some(executor, health, 1.0)
    assert health.failures == 3
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()
