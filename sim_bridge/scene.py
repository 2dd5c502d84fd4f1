"""The moving parts of a twin world, arm and objects, together with its static surroundings."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pybullet_data

from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import ConfigError
from sim_bridge.arm_model import FINGERS, GripperMount, compose_arm_urdf
from sim_bridge.bullet import pybullet, silence
from sim_bridge.objects import OBJECT_SCALE, object_numbers, object_urdf, read_vertices
from sim_bridge.painter import Painter
from sim_bridge.randomization import Level, Variation
from sim_bridge.surroundings import Surroundings, place, tray_xy
from sim_bridge.textures import PSEUDO_REAL_BANK, write_textures

DROP_REACH_M = 0.075  # objects are dropped at most this far from the tray's centre, along each axis

_DATA = Path(pybullet_data.getDataPath())
_UPRIGHT = (0.0, 0.0, 0.0, 1.0)
_REST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class SceneBodies:
    """Ids of the moving bodies and of the arm's joints in the physics client."""

    arm: int
    joints: tuple[int, ...]  # of the arm, from the base
    fingers: tuple[int, int]
    carrier: int  # the link that carries the gripper
    objects: tuple[int, ...]


class Scene:
    """Loads everything once; each layout only moves and repaints it."""

    def __init__(
        self, client: Any, stage: Any, arm: ArmSettings, *, object_set: str, level: Level, mount: GripperMount
    ) -> None:
        """`stage` is a second client that holds the visuals of everything static."""
        self._client = client
        self._clear_state: int | None = None
        with silence(), tempfile.TemporaryDirectory(prefix="opc_twin_") as name:
            folder = Path(name)
            bank = PSEUDO_REAL_BANK if level.stands_for_hardware else 0
            textures = write_textures(folder, first=bank) if level is not Level.NONE else []
            self._painter = Painter(client, textures)
            urdf = folder / "arm.urdf"
            urdf.write_text(compose_arm_urdf(arm, mount), encoding="utf-8")
            body = int(client.loadURDF(str(urdf), useFixedBase=True))
            self._surroundings = Surroundings(
                client, stage, level=level, data_path=_DATA, folder=folder, textures=textures
            )
            numbers = object_numbers(object_set)
            objects = tuple(self._add_object(n, _far(i)) for i, n in enumerate(numbers))
            self.bodies = _name_joints(client, body, arm, objects)
        self._vertices = [read_vertices(_DATA, number) for number in numbers]
        self._masses_kg = {body: client.getDynamicsInfo(body, -1)[0] for body in self.bodies.objects}

    def clear(self) -> None:
        """Forget all past contacts: what follows must not depend on earlier layouts.

        Moving the objects apart and stepping empties Bullet's contact cache; the saved state then resets whatever else
        a moved body retains besides its pose.
        """
        self._park_objects()
        self._client.stepSimulation()
        if self._clear_state is None:
            self._clear_state = int(self._client.saveState())
        self._client.restoreState(self._clear_state)

    def arrange(self, variation: Variation) -> None:
        """Move and repaint everything except the objects' positions, which are dropped later."""
        self._surroundings.arrange(variation)
        place(self._client, self.bodies.arm, (0.0, 0.0), variation.arm_offset)
        # The gripper keeps its colour.
        self._painter.paint(self.bodies.arm, variation.arm, links=range(-1, self.bodies.carrier + 1))
        for body, surface in zip(self.bodies.objects, variation.objects, strict=False):
            self._painter.paint(body, surface)
        for body, mass in self._masses_kg.items():
            self._client.changeDynamics(
                body, -1, lateralFriction=variation.touch.friction, mass=mass * variation.touch.mass_scale
            )

    def drop(self, variation: Variation, rng: np.random.Generator) -> None:
        """Put the objects above the tray, one above the other, in random orientations."""
        order = rng.permutation(len(self.bodies.objects))
        for height, index in enumerate(order):
            self.drop_one(self.bodies.objects[index], 0.05 + 0.045 * height, variation, rng)

    def drop_one(self, body: int, z_m: float, variation: Variation, rng: np.random.Generator) -> None:
        """Put one object at a random position above the tray, at rest."""
        x, y = tray_xy(variation)
        dx, dy = rng.uniform(-DROP_REACH_M, DROP_REACH_M, size=2).tolist()
        quaternion = rng.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        self._client.resetBasePositionAndOrientation(body, (x + dx, y + dy, z_m), quaternion.tolist())
        self._client.resetBaseVelocity(body, (0, 0, 0), (0, 0, 0))
        self._client.changeDynamics(body, -1, activationState=pybullet.ACTIVATION_STATE_WAKE_UP)

    def rest(self) -> None:
        """Put the objects to sleep where they lie; Bullet wakes those that the arm comes near.

        Bullet wakes a whole heap if one of its objects still moves, so it takes a few rounds.
        """
        places = self.object_positions()
        for _ in range(_REST_ROUNDS):
            for body in self.bodies.objects:
                self._client.resetBaseVelocity(body, (0, 0, 0), (0, 0, 0))
                self._client.changeDynamics(body, -1, activationState=pybullet.ACTIVATION_STATE_SLEEP)
            self._client.stepSimulation()
            before, places = places, self.object_positions()
            if np.array_equal(before, places):
                return

    def object_positions(self) -> np.ndarray:
        """Centres of the objects in the room, (K, 3)."""
        return np.array([self._client.getBasePositionAndOrientation(body)[0] for body in self.bodies.objects])

    def object_corners(self) -> list[np.ndarray]:
        """Corners (M, 3) of each object's mesh in the room."""
        corners = []
        for body, vertices in zip(self.bodies.objects, self._vertices, strict=True):
            position, quaternion = self._client.getBasePositionAndOrientation(body)
            rotation = np.reshape(self._client.getMatrixFromQuaternion(quaternion), (3, 3))
            corners.append(vertices @ rotation.T + position)
        return corners

    def fastest_object_m_s(self) -> float:
        speeds = [np.abs(self._client.getBaseVelocity(body)[0]).max() for body in self.bodies.objects]
        return float(max(speeds))

    def is_outside_tray(self, position_m: np.ndarray, variation: Variation) -> bool:
        x, y = tray_xy(variation)
        return bool(max(abs(position_m[0] - x), abs(position_m[1] - y)) > 0.15 or position_m[2] < 0.0)

    def _park_objects(self) -> None:
        for index, body in enumerate(self.bodies.objects):
            self._client.resetBasePositionAndOrientation(body, _far(index), _UPRIGHT)
            self._client.resetBaseVelocity(body, (0, 0, 0), (0, 0, 0))
            self._client.changeDynamics(body, -1, activationState=pybullet.ACTIVATION_STATE_WAKE_UP)

    def _add_object(self, number: int, position_m: tuple[float, float, float]) -> int:
        """An object that may sleep: at rest it costs nothing until something comes near it."""
        urdf = str(object_urdf(_DATA, number))
        flags = pybullet.URDF_ENABLE_SLEEPING
        return int(self._client.loadURDF(urdf, position_m, globalScaling=OBJECT_SCALE, flags=flags))


def _name_joints(client: Any, body: int, arm: ArmSettings, objects: tuple[int, ...]) -> SceneBodies:
    """Find the arm's joints and fingers among all of Bullet's joints, which include fixed ones."""
    infos = [client.getJointInfo(body, joint) for joint in range(client.getNumJoints(body))]
    number = {info[1].decode(): info[0] for info in infos}
    fingers = number[FINGERS[0]], number[FINGERS[1]]
    joints = tuple(info[0] for info in infos if info[2] != pybullet.JOINT_FIXED and info[0] not in fingers)
    if len(joints) != len(arm.joint_names):
        raise ConfigError(
            f"{arm.body.urdf}: {len(joints)} joints lead to {arm.body.link}, expected {len(arm.joint_names)} "
            "as joint_names has"
        )
    carrier = next(info[0] for info in infos if info[12].decode() == arm.body.link)
    return SceneBodies(body, joints, fingers, carrier, objects)


def _far(index: int) -> tuple[float, float, float]:
    """A separate place for each body, out of reach and out of sight."""
    return 20.0 + 2.0 * index, 0.0, 5.0
