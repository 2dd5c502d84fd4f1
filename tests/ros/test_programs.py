from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.arms.arm import ScriptedArm

pytestmark = pytest.mark.ros
STEPS_OF_AN_EPISODE = 7


@pytest.mark.parametrize(
    ("parameters", "code", "complaint"),
    [
        ({"seed": -1}, 1, "scripted_arm: parameters: seed: got -1, expected from 0"),
        ({"sed": 1}, 1, "scripted_arm: unknown parameter 'sed', did you mean 'seed'? Known are robot, seed"),
        ({"rate_hz": "fast"}, 1, "scripted_arm: parameters: rate_hz: got 'fast', expected a number"),
        ({"config": "/nowhere.yaml"}, 1, "scripted_arm: /nowhere.yaml: No such file or directory"),
        ({"a b": "{"}, 2, "scripted_arm: Failed to parse ROS arguments"),
    ],
)
def test_wrong_parameters_end_the_program_with_one_line(
    start: Callable, parameters: dict[str, object], code: int, complaint: str
) -> None:
    arm = start("scripted_arm", "/arm1", **parameters)
    assert arm.wait() == code
    (line,) = arm.said()
    assert line.startswith(complaint)


def test_a_parameter_of_somebody_else_only_warns(start: Callable) -> None:
    arm = start("scripted_arm", "/arm1", robot_description="<robot/>", wait_for_recorder=False, rate_hz=50, episodes=1)
    assert arm.wait() == 0
    assert any("parameter 'robot_description' is not one of this node's" in line for line in arm.said())


def test_a_recorder_that_cannot_write_says_so_and_ends(start: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = start("recorder", "/arm1", store=tmp_path / "file" / "store")
    assert recorder.wait() == 1
    (line,) = recorder.said()
    assert line.startswith(f"recorder: {tmp_path}/file/store: ")


def test_values_of_a_config_file_serve_as_defaults_and_parameters_win(start: Callable, probe, tmp_path: Path) -> None:
    from rcl_interfaces.srv import GetParameters

    config = tmp_path / "recorder.yaml"
    config.write_text(f"store: {tmp_path}/store\nmax_steps: 7\nqueue_capacity: 9\n")
    start("recorder", "/arm1", config=config, queue_capacity=11)
    names = ["max_steps", "queue_capacity", "frozen_steps"]
    values = probe.call(GetParameters, "/arm1/recorder/get_parameters", names=names).values
    assert [value.integer_value for value in values] == [7, 11, 2]


@pytest.mark.parametrize("how", ["params_file", "config"])
def test_a_file_in_ros_form_serves_as_params_file_and_as_config(
    start: Callable, probe, tmp_path: Path, how: str
) -> None:
    from rcl_interfaces.srv import GetParameters

    file = tmp_path / "parameters.yaml"
    file.write_text(
        f"/**:\n  ros__parameters:\n    max_steps: 7\n/arm1/recorder:\n  ros__parameters:\n    store: {tmp_path}/s\n"
    )
    start("recorder", "/arm1", **{how: file}, queue_capacity=11)
    names = ["max_steps", "queue_capacity", "frozen_steps"]
    values = probe.call(GetParameters, "/arm1/recorder/get_parameters", names=names).values
    assert [value.integer_value for value in values] == [7, 11, 2]
    assert (tmp_path / "s").is_dir()


def test_one_seed_gives_one_sequence_of_actions_however_long_the_arm_waits(start: Callable, probe) -> None:
    from opc_interfaces.msg import GraspStep, RecorderStatus
    from sensor_msgs.msg import CompressedImage

    from opc_ros.ros import convert, topics
    from opc_ros.ros.topics import images

    robots = {"/arm1": 5, "/arm2": 5, "/arm3": 6}
    told = {robot: probe.listen(GraspStep, f"{robot}/grasp/step", topics.RECORDED) for robot in robots}
    # Subscribed after the steps: an arm whose images are received knows that somebody has subscribed to its steps.
    seen = {robot: probe.listen(CompressedImage, f"{robot}/camera/image/compressed", images()) for robot in robots}
    for robot, seed in robots.items():
        start("scripted_arm", robot, seed=seed, rate_hz=100, image_size=32)
    for robot, steps in told.items():
        probe.until(lambda robot=robot: seen[robot], f"{robot} shows no image")
        # One after the other, so that each has waited for a different time.
        recorder = probe.publisher(RecorderStatus, f"{robot}/recorder/status", topics.LATEST)
        recorder.publish(RecorderStatus(state=RecorderStatus.WAITING, frames_received=1))
        probe.until(lambda steps=steps: len(steps) >= 3 * STEPS_OF_AN_EPISODE, f"{robot} does not move")
    first, second, other = (
        [(step.index, convert.action_from_msg(step.action)) for step in steps[: 3 * STEPS_OF_AN_EPISODE]]
        for steps in told.values()
    )
    assert first == second
    assert first != other
    assert [index for index, _ in first] == [*range(STEPS_OF_AN_EPISODE)] * 3


def test_the_scripted_policy_goes_down_closes_lifts_and_terminates() -> None:
    from opc_ros.ros.scripted_arm_node import choose_action

    arm = ScriptedArm(image_size=16)
    observation = arm.begin(seed=3)
    actions = []
    while not (actions and actions[-1].terminate):
        actions.append(choose_action(observation.tool, arm.disc_xy))
        arm.apply(actions[-1])
        observation = arm.observe()
    # From 0.30 m to the floor at 0.02 m by at most 0.08 m per step; then close, lift once and end.
    assert [action.displacement_m[2] for action in actions] == [-0.08] * 4 + [0.0, 0.08, 0.0]
    assert [action.close_gripper for action in actions] == [False] * 4 + [True, False, False]
    assert arm.finish()
