"""The bodies of a twin world in one physics client: table, tray, objects, divider, clutter, cables and arm."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pybullet_data

from sim_bridge.arm_model import GripperMount, compose_arm_urdf
from sim_bridge.bullet import pybullet, silence
from sim_bridge.objects import OBJECT_SCALE, object_numbers, object_urdf, read_vertices
from sim_bridge.randomization import NO_TEXTURE, Level, PlanarOffset, Surface, Variation
from sim_bridge.textures import PSEUDO_REAL_BANK, write_textures

TRAY_CENTRE_M = (0.60, 0.0)
TRAY_SCALE = 0.6
TRAY_FLOOR_M = 0.015 * TRAY_SCALE  # top of the floor's collision box
TRAY_RIM_M = 0.11 * TRAY_SCALE
DROP_REACH_M = 0.075  # objects are dropped this far from the tray's centre at most, along each axis

_DATA = Path(pybullet_data.getDataPath())
_UPRIGHT = (0.0, 0.0, 0.0, 1.0)
_DIVIDER_HALF_M = (0.004, 0.11, 0.02)
_CLUTTER_HALF_M = ((0.03, 0.05, 0.04), (0.045, 0.02, 0.03), (0.025, 0.025, 0.06))
_CLUTTER_RGB = ((0.75, 0.2, 0.15), (0.15, 0.3, 0.6), (0.9, 0.85, 0.3))
_CABLES = 2
_REST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class SceneBodies:
    """Body numbers in one physics client."""

    arm: int
    table: int
    tray: int
    objects: tuple[int, ...]
    divider: int | None
    clutter: tuple[int, ...]
    cables: tuple[int, ...]


class Scene:
    """Loads everything once; each layout only moves and repaints it."""

    def __init__(self, client: Any, *, object_set: str, level: Level, mount: GripperMount) -> None:
        self._client = client
        self._textures: list[int] = []
        self._clear_state: int | None = None
        with silence():
            self.bodies = self._load(object_set, level, mount)
        self._vertices = [read_vertices(_DATA, number) for number in object_numbers(object_set)]
        self._masses_kg = {body: client.getDynamicsInfo(body, -1)[0] for body in self.bodies.objects}

    def _load(self, object_set: str, level: Level, mount: GripperMount) -> SceneBodies:
        client = self._client
        is_pseudo_real = level is Level.PSEUDO_REAL
        with tempfile.TemporaryDirectory(prefix="opc_twin_") as name:
            folder = Path(name)
            urdf = folder / "arm.urdf"
            urdf.write_text(compose_arm_urdf(_DATA, mount), encoding="utf-8")
            arm = client.loadURDF(str(urdf), useFixedBase=True)
            if level is not Level.NONE:
                bank = write_textures(folder, first=PSEUDO_REAL_BANK if is_pseudo_real else 0)
                self._textures = [client.loadTexture(str(path)) for path in bank]
        tray_urdf = str(_DATA / "tray" / "traybox.urdf")
        return SceneBodies(
            arm=arm,
            table=self._add_box((1.4, 1.4, 0.02), (0.6, 0.0, -0.02)),
            tray=client.loadURDF(tray_urdf, (*TRAY_CENTRE_M, 0.0), globalScaling=TRAY_SCALE, useFixedBase=True),
            objects=tuple(
                self._add_object(number, _far(index)) for index, number in enumerate(object_numbers(object_set))
            ),
            divider=self._add_box(_DIVIDER_HALF_M, _far(20)) if level is Level.HEAVY else None,
            clutter=self._add_clutter() if is_pseudo_real else (),
            cables=tuple(self._add_cable() for _ in range(_CABLES)) if is_pseudo_real else (),
        )

    def clear(self) -> None:
        """Forget all that ever touched: what follows must not depend on layouts before this one.

        Moving the objects apart and stepping empties Bullet's contact cache; the saved state then resets what a
        moved body keeps besides its pose.
        """
        self._park_objects()
        self._client.stepSimulation()
        if self._clear_state is None:
            self._clear_state = int(self._client.saveState())
        self._client.restoreState(self._clear_state)

    def arrange(self, variation: Variation) -> None:
        """Move and repaint everything but the objects' places, which are dropped later."""
        bodies, client = self.bodies, self._client
        self._paint(bodies.tray, variation.tray)
        self._paint(bodies.table, variation.table)
        self._paint_arm(variation.arm)
        for body, surface in zip(bodies.objects, variation.objects, strict=False):
            self._paint(body, surface)
        self._place(bodies.arm, (0.0, 0.0), variation.arm_offset)
        self._place(bodies.tray, TRAY_CENTRE_M, variation.tray_offset)
        if bodies.divider is not None:
            if variation.divider is None:
                client.resetBasePositionAndOrientation(bodies.divider, _far(20), _UPRIGHT)
            else:
                self._place(bodies.divider, self._tray_xy(variation), variation.divider, z_m=TRAY_FLOOR_M + 0.02)
        for body, half, offset in zip(bodies.clutter, _CLUTTER_HALF_M, variation.clutter, strict=False):
            self._place(body, TRAY_CENTRE_M, offset, z_m=half[2])
        for body, offset in zip(bodies.cables, variation.cables, strict=True):
            self._place(body, TRAY_CENTRE_M, offset)
        self._set_touch(variation)

    def drop(self, variation: Variation, rng: np.random.Generator) -> None:
        """Put the objects above the tray, one over the other, turned at random."""
        order = rng.permutation(len(self.bodies.objects))
        for height, index in enumerate(order):
            self.drop_one(self.bodies.objects[index], 0.05 + 0.045 * height, variation, rng)

    def drop_one(self, body: int, z_m: float, variation: Variation, rng: np.random.Generator) -> None:
        """Put one object somewhere above the tray, at rest."""
        x, y = self._tray_xy(variation)
        dx, dy = rng.uniform(-DROP_REACH_M, DROP_REACH_M, size=2).tolist()
        quaternion = rng.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        self._client.resetBasePositionAndOrientation(body, (x + dx, y + dy, z_m), quaternion.tolist())
        self._client.resetBaseVelocity(body, (0, 0, 0), (0, 0, 0))
        self._client.changeDynamics(body, -1, activationState=pybullet.ACTIVATION_STATE_WAKE_UP)

    def rest(self) -> None:
        """Put the objects to sleep where they lie; Bullet wakes those that the arm comes near.

        Bullet wakes a heap again if one of its objects still stirs, so it takes a few rounds.
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
        x, y = self._tray_xy(variation)
        return bool(max(abs(position_m[0] - x), abs(position_m[1] - y)) > 0.15 or position_m[2] < 0.0)

    def _tray_xy(self, variation: Variation) -> tuple[float, float]:
        return TRAY_CENTRE_M[0] + variation.tray_offset.x_m, TRAY_CENTRE_M[1] + variation.tray_offset.y_m

    def _park_objects(self) -> None:
        for index, body in enumerate(self.bodies.objects):
            self._client.resetBasePositionAndOrientation(body, _far(index), _UPRIGHT)
            self._client.resetBaseVelocity(body, (0, 0, 0), (0, 0, 0))
            self._client.changeDynamics(body, -1, activationState=pybullet.ACTIVATION_STATE_WAKE_UP)

    def _place(self, body: int, xy: tuple[float, float], offset: PlanarOffset, *, z_m: float = 0.0) -> None:
        half = offset.yaw_rad / 2
        self._client.resetBasePositionAndOrientation(
            body, (xy[0] + offset.x_m, xy[1] + offset.y_m, z_m), (0.0, 0.0, math.sin(half), math.cos(half))
        )

    def _paint(self, body: int, surface: Surface) -> None:
        texture = self._textures[surface.texture] if surface.texture != NO_TEXTURE else -1
        self._client.changeVisualShape(body, -1, rgbaColor=(*surface.rgb, 1.0), textureUniqueId=texture)

    def _paint_arm(self, surface: Surface) -> None:
        for link in range(-1, 7):
            self._client.changeVisualShape(self.bodies.arm, link, rgbaColor=(*surface.rgb, 1.0))

    def _set_touch(self, variation: Variation) -> None:
        for body, mass in self._masses_kg.items():
            self._client.changeDynamics(
                body, -1, lateralFriction=variation.touch.friction, mass=mass * variation.touch.mass_scale
            )

    def _add_object(self, number: int, position_m: tuple[float, float, float]) -> int:
        """An object that may sleep: one at rest costs nothing until something comes near it."""
        urdf = str(object_urdf(_DATA, number))
        flags = pybullet.URDF_ENABLE_SLEEPING
        return int(self._client.loadURDF(urdf, position_m, globalScaling=OBJECT_SCALE, flags=flags))

    def _add_box(self, half_m: tuple[float, float, float], position_m: tuple[float, float, float]) -> int:
        shape = self._client.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half_m)
        look = self._client.createVisualShape(pybullet.GEOM_BOX, halfExtents=half_m)
        return int(self._client.createMultiBody(0.0, shape, look, position_m))

    def _add_clutter(self) -> tuple[int, ...]:
        bodies = tuple(self._add_box(half, _far(30)) for half in _CLUTTER_HALF_M)
        for body, rgb in zip(bodies, _CLUTTER_RGB, strict=True):
            self._paint(body, Surface(rgb))
        return bodies

    def _add_cable(self) -> int:
        """A dark tube lying in an arc, to be seen only."""
        pieces, radius_m = 8, 0.16
        angles = np.linspace(-0.7, 0.7, pieces)
        look = self._client.createVisualShapeArray(
            shapeTypes=[pybullet.GEOM_BOX] * pieces,
            halfExtents=[[0.004, radius_m * 0.1, 0.004]] * pieces,
            visualFramePositions=[[radius_m * (math.cos(a) - 1), radius_m * math.sin(a), 0.004] for a in angles],
            visualFrameOrientations=[[0.0, 0.0, math.sin(a / 2), math.cos(a / 2)] for a in angles],
            rgbaColors=[[0.08, 0.08, 0.09, 1.0]] * pieces,
        )
        return int(self._client.createMultiBody(0.0, -1, look, _far(40)))


def _far(index: int) -> tuple[float, float, float]:
    """A place of its own where a body touches nothing and is not seen."""
    return 20.0 + 2.0 * index, 0.0, 5.0
