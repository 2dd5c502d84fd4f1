"""The static parts of a layout: table, tray, divider, clutter and cables.

Their shapes are in the physics client; their visuals are in a second client, the stage, which only the camera uses. So
the static parts of a layout are rendered once, and each image only renders what moves.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_bridge.bullet import pybullet
from sim_bridge.painter import Painter
from sim_bridge.randomization import Level, PlanarOffset, Surface, Variation

TRAY_CENTRE_M = (0.60, 0.0)
TRAY_SCALE = 0.6
TRAY_FLOOR_M = 0.015 * TRAY_SCALE  # top of the floor's collision box
TRAY_RIM_M = 0.11 * TRAY_SCALE

_TABLE_HALF_M = (1.4, 1.4, 0.02)
_TABLE_CENTRE_M = (0.6, 0.0, -0.02)
_DIVIDER_HALF_M = (0.004, 0.11, 0.02)
_CLUTTER_HALF_M = ((0.03, 0.05, 0.04), (0.045, 0.02, 0.03), (0.025, 0.025, 0.06))
_CLUTTER_RGB = ((0.75, 0.2, 0.15), (0.15, 0.3, 0.6), (0.9, 0.85, 0.3))
_CABLES = 2
_AWAY_M = (60.0, 0.0, 5.0)  # out of sight and reach
_SPECK_M = 1e-5
_SPECK_CENTRE_M = (0.0, 0.0, -1.0)
_UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class Surroundings:
    """Loads everything once; each layout only moves and repaints it."""

    def __init__(
        self, client: Any, stage: Any, *, level: Level, data_path: Path, folder: Path, textures: Sequence[Path]
    ) -> None:
        """`folder` takes a file that is only needed while loading."""
        self._client = client
        self._stage = stage
        self._painter = Painter(stage, textures)
        tray = data_path / "tray" / "traybox.urdf"
        solid_tray = folder / "tray.urdf"
        solid_tray.write_text(_without_looks(tray), encoding="utf-8")
        _add_solid_box(client, _TABLE_HALF_M, _TABLE_CENTRE_M)
        self._table = _add_seen_box(stage, _TABLE_HALF_M, _TABLE_CENTRE_M)
        self._trays = [
            (where, where.loadURDF(str(urdf), (*TRAY_CENTRE_M, 0.0), globalScaling=TRAY_SCALE, useFixedBase=True))
            for where, urdf in ((client, solid_tray), (stage, tray))
        ]
        self._dividers: list[tuple[Any, int]] = []
        if level is Level.HEAVY:
            self._dividers = [
                (client, _add_solid_box(client, _DIVIDER_HALF_M, _AWAY_M)),
                (stage, _add_seen_box(stage, _DIVIDER_HALF_M, _AWAY_M)),
            ]
        self._clutter: list[int] = []
        self._cables: list[int] = []
        if level.stands_for_hardware:
            self._clutter = [_add_seen_box(stage, half, _AWAY_M) for half in _CLUTTER_HALF_M]
            self._cables = [_add_cable(stage) for _ in range(_CABLES)]
            for body, rgb in zip(self._clutter, _CLUTTER_RGB, strict=True):
                self._painter.paint(body, Surface(rgb))

    def arrange(self, variation: Variation) -> None:
        """Move and repaint everything."""
        self._painter.paint(self._table, variation.table)
        self._painter.paint(self._trays[1][1], variation.tray)
        for where, tray in self._trays:
            place(where, tray, TRAY_CENTRE_M, variation.tray_offset)
        for where, divider in self._dividers:
            if variation.divider is None:
                where.resetBasePositionAndOrientation(divider, _AWAY_M, _UPRIGHT)
            else:
                place(where, divider, tray_xy(variation), variation.divider, z_m=TRAY_FLOOR_M + _DIVIDER_HALF_M[2])
        if self._clutter:
            for body, half, offset in zip(self._clutter, _CLUTTER_HALF_M, variation.clutter, strict=True):
                place(self._stage, body, TRAY_CENTRE_M, offset, z_m=half[2])
        for body, offset in zip(self._cables, variation.cables, strict=True):
            place(self._stage, body, TRAY_CENTRE_M, offset)


def tray_xy(variation: Variation) -> tuple[float, float]:
    """The tray's centre in the room."""
    return TRAY_CENTRE_M[0] + variation.tray_offset.x_m, TRAY_CENTRE_M[1] + variation.tray_offset.y_m


def place(client: Any, body: int, xy: tuple[float, float], offset: PlanarOffset, *, z_m: float = 0.0) -> None:
    """Put a body on the table at a position plus an offset."""
    half = offset.yaw_rad / 2
    client.resetBasePositionAndOrientation(
        body, (xy[0] + offset.x_m, xy[1] + offset.y_m, z_m), (0.0, 0.0, math.sin(half), math.cos(half))
    )


def _without_looks(urdf: Path) -> str:
    """A body without visuals would be drawn as its collision shape, so it gets a speck below the table instead."""
    robot = ET.parse(urdf).getroot()
    for visual in robot.findall("link/visual"):
        visual.clear()
        ET.SubElement(visual, "origin", xyz=" ".join(map(str, _SPECK_CENTRE_M)), rpy="0 0 0")
        ET.SubElement(ET.SubElement(visual, "geometry"), "box", size=f"{_SPECK_M} {_SPECK_M} {_SPECK_M}")
    return ET.tostring(robot, encoding="unicode")


def _add_solid_box(client: Any, half_m: tuple[float, float, float], centre_m: tuple[float, float, float]) -> int:
    shape = client.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half_m)
    speck = client.createVisualShape(
        pybullet.GEOM_BOX, halfExtents=[_SPECK_M / 2] * 3, visualFramePosition=_SPECK_CENTRE_M
    )
    return int(client.createMultiBody(0.0, shape, speck, centre_m))


def _add_seen_box(client: Any, half_m: tuple[float, float, float], centre_m: tuple[float, float, float]) -> int:
    look = client.createVisualShape(pybullet.GEOM_BOX, halfExtents=half_m)
    return int(client.createMultiBody(0.0, -1, look, centre_m))


def _add_cable(client: Any) -> int:
    """A dark tube lying in an arc."""
    pieces, radius_m = 8, 0.16
    angles = np.linspace(-0.7, 0.7, pieces)
    look = client.createVisualShapeArray(
        shapeTypes=[pybullet.GEOM_BOX] * pieces,
        halfExtents=[[0.004, radius_m * 0.1, 0.004]] * pieces,
        visualFramePositions=[[radius_m * (math.cos(a) - 1), radius_m * math.sin(a), 0.004] for a in angles],
        visualFrameOrientations=[[0.0, 0.0, math.sin(a / 2), math.cos(a / 2)] for a in angles],
        rgbaColors=[[0.08, 0.08, 0.09, 1.0]] * pieces,
    )
    return int(client.createMultiBody(0.0, -1, look, _AWAY_M))
