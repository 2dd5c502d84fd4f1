"""Named, disjoint sets of graspable objects out of pybullet_data's 1,000 procedurally generated ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opc_ros.errors import ConfigError

# Each set mixes slabs, bars and blocks whose second-longest side fits the open gripper once scaled;
# train comes from numbers 0 to 332, test from 333 to 665, held_out from 666 to 999.
OBJECT_SETS: dict[str, tuple[int, ...]] = {
    "train": (3, 14, 23, 29, 66),
    "test": (340, 366, 396, 460, 485),
    "held_out": (671, 692, 707, 714, 759),
    "sealed": (800, 802, 803, 828, 857),  # reserved for the end: no score has seen them
    "bars": (88, 104, 117, 132, 148),  # only long thin ones, from train's numbers: data without the others
}
_FILE_SCALE = 0.015  # in every one of the 1,000 URDF files
OBJECT_SCALE = 0.6  # makes the usual 9 cm side 5.5 cm


def object_numbers(object_set: str) -> tuple[int, ...]:
    """Which of the 1,000 objects a named set holds."""
    try:
        return OBJECT_SETS[object_set]
    except KeyError:
        raise ConfigError(f"object set {object_set!r}: expected one of {', '.join(OBJECT_SETS)}") from None


def object_urdf(data_path: Path, number: int) -> Path:
    """Where pybullet_data keeps an object."""
    return data_path / "random_urdfs" / f"{number:03d}" / f"{number:03d}.urdf"


def read_vertices(data_path: Path, number: int) -> np.ndarray:
    """Corners (M, 3) of an object's mesh in its own frame, scaled as the twin loads it."""
    mesh = object_urdf(data_path, number).with_suffix(".obj").read_text(encoding="utf-8")
    rows = [line.split()[1:4] for line in mesh.splitlines() if line.startswith("v ")]
    return np.array(rows, dtype=np.float64) * (_FILE_SCALE * OBJECT_SCALE)
