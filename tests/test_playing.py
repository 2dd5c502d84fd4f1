from __future__ import annotations

import pytest

from opc_ros.arms.arm import Motion, ScriptedArm
from opc_ros.errors import ArmStopped, EpisodeStopped
from opc_ros.grasp import GraspAction, Observation
from opc_ros.playing import ScriptedPlayer, play_episode, record_episode

DOWN = GraspAction(displacement_m=(0.0, 0.0, -0.05))


class Telling:
    """A listener that records what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def begin(self, seed: int, seen: Observation) -> None:
        self.heard.append(("begin", seed))

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self.heard.append(index)

    def end(self, is_success: bool, steps: int) -> None:
        self.heard.append(("end", is_success, steps))

    def abort(self, reason: str) -> None:
        self.heard.append(("abort", reason))


def take_the_disc(arm: ScriptedArm) -> ScriptedPlayer:
    """Four actions: above the disc and down, close, terminate."""

    def choose(seen: Observation) -> GraspAction:
        if seen.tool.z_m > ScriptedArm.FLOOR_M + 1e-6:
            x, y = arm.disc_xy
            return GraspAction(displacement_m=(_near(x - seen.tool.x_m), _near(y - seen.tool.y_m), -0.08))
        return GraspAction(close_gripper=True) if seen.tool.aperture_m > 0 else GraspAction(terminate=True)

    return ScriptedPlayer(choose)


def _near(distance: float) -> float:
    return min(max(distance, -0.08), 0.08)


def test_an_episode_is_reported_from_begin_to_end_and_the_answer_is_what_the_lift_showed() -> None:
    arm, listener = ScriptedArm(image_size=16), Telling()
    assert play_episode(arm, take_the_disc(arm), 3, listener) is True
    # From 0.30 m to the floor at 0.02 takes 4 steps of 0.08 m; then close and terminate.
    assert listener.heard == [("begin", 3), 0, 1, 2, 3, 4, 5, ("end", True, 6)]


def test_it_ends_at_the_horizon_without_looking_again() -> None:
    arm, listener = ScriptedArm(image_size=16), Telling()
    looks: list[int] = []
    observe = arm.observe
    arm.observe = lambda: looks.append(1) or observe()  # type: ignore[method-assign,func-returns-value]
    assert play_episode(arm, ScriptedPlayer(lambda seen: DOWN), 0, listener, max_steps=3) is False
    assert listener.heard == [("begin", 0), 0, 1, 2, ("end", False, 3)]
    assert len(looks) == 3


def test_an_order_to_stop_comes_before_the_arm_moves() -> None:
    arm, listener = ScriptedArm(image_size=16), Telling()
    orders = iter([None, "enough"])
    moved: list[GraspAction] = []
    apply = arm.apply
    arm.apply = lambda action: moved.append(action) or apply(action)  # type: ignore[method-assign,func-returns-value]
    with pytest.raises(EpisodeStopped, match="enough"):
        play_episode(arm, ScriptedPlayer(lambda seen: DOWN), 0, listener, why_to_stop=lambda: next(orders))
    assert listener.heard == [("begin", 0), 0, ("abort", "enough")]
    assert moved == [DOWN]


def test_whatever_breaks_an_episode_is_told_and_raised() -> None:
    arm, listener = ScriptedArm(image_size=16), Telling()

    def press(seen: Observation) -> GraspAction:
        arm.stop("red button")
        return DOWN

    with pytest.raises(ArmStopped):
        play_episode(arm, ScriptedPlayer(press), 0, listener)
    assert listener.heard == [("begin", 0), ("abort", "arm scripted: stopped (red button); release it first")]
    arm.release()

    def crash(seen: Observation) -> GraspAction:
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError):
        play_episode(arm, ScriptedPlayer(crash), 0, listener)
    assert listener.heard[-1] == ("abort", "stopped by ZeroDivisionError: oops")


def test_an_arm_that_cannot_begin_and_a_listener_that_refuses_let_nothing_begin() -> None:
    arm, listener = ScriptedArm(image_size=16), Telling()
    arm.stop("red button")
    with pytest.raises(ArmStopped):
        play_episode(arm, ScriptedPlayer(lambda seen: DOWN), 0, listener)
    assert listener.heard == []


def test_a_kept_episode_holds_every_step_and_what_was_sent_where_it_differs() -> None:
    arm = ScriptedArm(image_size=16)
    far = GraspAction(displacement_m=(0.5, 0.0, 0.0))
    actions = iter([DOWN, far, GraspAction(terminate=True)])
    player = ScriptedPlayer(lambda seen: next(actions), name="by hand")
    episode = record_episode(arm, player, 5, episode_id="e5", object_set="disc")
    assert (episode.id, episode.behaviour_policy, episode.object_set) == ("e5", "by hand", "disc")
    assert [step.action for step in episode.steps] == [DOWN, far, GraspAction(terminate=True)]
    assert [step.sent for step in episode.steps] == [None, GraspAction(displacement_m=(0.08, 0.0, 0.0)), None]
    assert (episode.seed, episode.label.is_success) == (5, False)
