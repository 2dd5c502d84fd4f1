"""Episodes made with the scripted arm."""

from __future__ import annotations

from opc_ros.arms.arm import ScriptedArm
from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep
from opc_ros.store import Store

SUCCESS = Label(is_success=True, source=LabelSource.PERSON, labeller="ada")
FAILURE = Label(is_success=False, source=LabelSource.GRIPPER_WIDTH, labeller="width rule")

# The second action goes 0.2 m down, more than the arm allows, so that one step is clamped.
ACTIONS = (
    GraspAction(displacement_m=(0.03, -0.02, -0.05), rotation_rad=0.4),
    GraspAction(displacement_m=(0.0, 0.01, -0.2), rotation_rad=-0.25),
    GraspAction(close_gripper=True, terminate=True),
)


def make_episode(
    episode_id: str = "e1",
    *,
    robot: str = "left",
    seed: int = 0,
    label: Label = SUCCESS,
    behaviour_policy: str = "scripted",
    object_set: str = "cups",
    encoding: str = "jpeg",
    image_size: int = 64,
) -> Episode:
    arm = ScriptedArm(robot, image_size=image_size)
    observation = arm.begin(seed)
    steps = []
    for action in ACTIONS:
        frame = Frame.from_image(observation.image, observation.stamp_ns)
        if encoding == "rgb8":
            frame = Frame(observation.stamp_ns, "rgb8", observation.image.tobytes(), image_size, image_size)
        motion = arm.apply(action)
        steps.append(GraspStep(frame=frame, tool=observation.tool, action=action, sent=motion.sent))
        observation = arm.observe()
    return Episode(
        id=episode_id,
        robot=robot,
        behaviour_policy=behaviour_policy,
        steps=tuple(steps),
        label=label,
        object_set=object_set,
        permit_id="permit-7",
    )


def flatten(store: Store) -> None:
    """Lay a store out as older versions did: episodes below their robot, labels below their episode."""
    for robot in (store.path / "episodes").iterdir():
        for day in [path for path in robot.iterdir() if path.is_dir()]:
            for path in day.iterdir():
                path.rename(robot / path.name)
            day.rmdir()
    for path in list((store.path / "labels").rglob("*.json")):
        episode_id, _, number = path.stem.rpartition(".")
        older = store.path / "labels" / episode_id
        older.mkdir(exist_ok=True)
        path.rename(older / f"{number}.json")


def fill(store: Store, count: int = 4) -> None:
    """Episodes of two robots in turn, the first labelled anew, all of them pinned as week-46."""
    for number in range(count):
        store.append(make_episode(f"e{number}", robot=("left", "right")[number % 2], seed=number, image_size=16))
    store.label("e0", FAILURE, note="slipped")
    store.take_snapshot(tag="week-46")


def facts_of(store: Store) -> list[object]:
    return [*store.episodes(), store.tags(), store.snapshots()]
