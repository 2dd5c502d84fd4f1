"""Procedural textures: noise, stripes, checks and spots, each determined by its number."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

TEXTURE_COUNT = 24
PSEUDO_REAL_BANK = 7_000  # numbers above this use other seeds: training never sees them

_SIDE = 64


def write_textures(folder: Path, *, first: int = 0) -> list[Path]:
    """Write a bank of TEXTURE_COUNT images and return their paths in order."""
    paths = []
    for index in range(TEXTURE_COUNT):
        path = folder / f"texture_{first + index}.png"
        cv2.imwrite(str(path), paint_texture(first + index))
        paths.append(path)
    return paths


def paint_texture(number: int) -> np.ndarray:
    """An image (64, 64, 3) of one of four kinds."""
    rng = np.random.default_rng(number)
    light, dark = rng.integers(140, 256, size=3), rng.integers(40, 200, size=3)
    weight = (_blotches, _stripes, _checks, _spots)[number % 4](rng)[:, :, None]
    return np.asarray(weight * light + (1 - weight) * dark, dtype=np.uint8)


def _blotches(rng: np.random.Generator) -> np.ndarray:
    grain = rng.random((int(rng.integers(4, 24)),) * 2).astype(np.float32)
    return np.clip(np.asarray(cv2.resize(grain, (_SIDE, _SIDE), interpolation=cv2.INTER_CUBIC)), 0, 1)


def _stripes(rng: np.random.Generator) -> np.ndarray:
    angle, period = rng.uniform(0, np.pi), rng.uniform(5, 24)
    rows, columns = np.mgrid[:_SIDE, :_SIDE]
    along = rows * np.sin(angle) + columns * np.cos(angle)
    return np.asarray(0.5 + 0.5 * np.sin(2 * np.pi * along / period))


def _checks(rng: np.random.Generator) -> np.ndarray:
    period = int(rng.integers(4, 20))
    rows, columns = np.mgrid[:_SIDE, :_SIDE]
    return np.asarray((rows // period + columns // period) % 2, dtype=np.float64)


def _spots(rng: np.random.Generator) -> np.ndarray:
    canvas = np.zeros((_SIDE, _SIDE), dtype=np.float32)
    for _ in range(int(rng.integers(8, 40))):
        column, row, radius = rng.integers(0, _SIDE), rng.integers(0, _SIDE), rng.integers(1, 7)
        cv2.circle(canvas, (int(column), int(row)), int(radius), 1.0, thickness=-1)
    return canvas
