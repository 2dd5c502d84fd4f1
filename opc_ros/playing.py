"""The one loop that plays an episode; code that chooses, records, counts or stops plugs into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from opc_ros.arms.arm import Arm, Motion
from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.errors import EpisodeStopped, OpcError
from opc_ros.grasp import MAX_STEPS, GraspAction, GraspStep, Observation


class Player(Protocol):
    """Chooses actions: a candidate's policy, a behaviour policy, a script."""

    @property
    def name(self) -> str:
        """The name of the player in episodes."""
        ...

    def begin(self, seed: int) -> None:
        """Begin an episode; everything random in it follows from the seed."""
        ...

    def choose(self, observation: Observation) -> GraspAction:
        """The next action."""
        ...


class EpisodeListener(Protocol):
    """Receives the progress of an episode: a recorder, a counter, a status page."""

    def begin(self, seed: int, seen: Observation) -> None:
        """The arm is ready and sees this; nothing has been chosen yet, and raising here prevents the episode."""
        ...

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        """An action was carried out; `motion` says what was sent after clamping."""
        ...

    def end(self, is_success: bool, steps: int) -> None: ...

    def abort(self, reason: str) -> None: ...


class NobodyListens:
    """For callers that only want to know whether it succeeded."""

    def begin(self, seed: int, seen: Observation) -> None: ...

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None: ...

    def end(self, is_success: bool, steps: int) -> None: ...

    def abort(self, reason: str) -> None: ...


NOBODY = NobodyListens()


class ScriptedPlayer:
    """A fake: the action is a plain function of the observation."""

    def __init__(self, choose: Callable[[Observation], GraspAction], name: str = "scripted") -> None:
        self._choose = choose
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def begin(self, seed: int) -> None: ...

    def choose(self, observation: Observation) -> GraspAction:
        return self._choose(observation)


class EpisodeKeeper:
    """A listener that keeps every step in memory."""

    def __init__(self) -> None:
        self._steps: list[GraspStep] = []
        self._is_success: bool | None = None
        self._seed: int | None = None

    def begin(self, seed: int, seen: Observation) -> None:
        self._steps.clear()
        self._seed = seed
        self._is_success = None

    def step(self, index: int, seen: Observation, chosen: GraspAction, motion: Motion) -> None:
        self._steps.append(
            GraspStep(
                frame=Frame.from_image(seen.image, seen.stamp_ns),
                tool=seen.tool,
                action=chosen,
                sent=motion.sent if motion.clamped else None,
            )
        )

    def end(self, is_success: bool, steps: int) -> None:
        self._is_success = is_success

    def abort(self, reason: str) -> None: ...

    def to_episode(self, episode_id: str, *, robot: str, behaviour_policy: str, object_set: str = "") -> Episode:
        """The finished episode; its label is what the lift showed."""
        return Episode(
            id=episode_id,
            robot=robot,
            behaviour_policy=behaviour_policy,
            steps=tuple(self._steps),
            label=Label(is_success=self._is_success, source=LabelSource.EPISODE_END, labeller=robot),
            object_set=object_set,
            seed=self._seed,
        )


def record_episode(
    arm: Arm, player: Player, seed: int, *, episode_id: str, object_set: str, max_steps: int = MAX_STEPS
) -> Episode:
    """Play one attempt and keep every step of it."""
    kept = EpisodeKeeper()
    play_episode(arm, player, seed, kept, max_steps=max_steps)
    return kept.to_episode(episode_id, robot=arm.name, behaviour_policy=player.name, object_set=object_set)


def play_episode(
    arm: Arm,
    player: Player,
    seed: int,
    listener: EpisodeListener = NOBODY,
    *,
    why_to_stop: Callable[[], str | None] = lambda: None,
    max_steps: int = MAX_STEPS,
) -> bool:
    """Play one attempt from layout to lift, and return whether it succeeded; once begun, it is always ended or aborted.

    `why_to_stop` is asked after each choice and before the arm moves, because a stop may have come in the meantime.
    """
    seen = arm.begin(seed)
    player.begin(seed)
    listener.begin(seed, seen)
    try:
        steps = 0
        while True:
            chosen = player.choose(seen)
            _stop_if(why_to_stop())
            motion = arm.apply(chosen)
            listener.step(steps, seen, chosen, motion)
            steps += 1
            if chosen.terminate or steps == max_steps:
                break
            seen = arm.observe()
        _stop_if(why_to_stop())
        is_success = arm.finish()
    except BaseException as error:
        listener.abort(str(error) if isinstance(error, OpcError) else f"stopped by {type(error).__name__}: {error}")
        raise
    listener.end(is_success, steps)
    return is_success


def _stop_if(reason: str | None) -> None:
    if reason is not None:
        raise EpisodeStopped(reason)
