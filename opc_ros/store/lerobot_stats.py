"""Statistics of a LeRobot dataset's features: for each episode, and merged over all episodes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import cv2
import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
IMAGE_SIDE = 150  # images are shrunk to about this size first


@dataclass(frozen=True, slots=True)
class FeatureStats:
    """Statistics of one feature; each array has the feature's shape, (3, 1, 1) for images."""

    min: np.ndarray
    max: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    count: np.ndarray  # (1,)
    q01: np.ndarray
    q10: np.ndarray
    q50: np.ndarray
    q90: np.ndarray
    q99: np.ndarray

    def to_json(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name).tolist() for item in fields(self)}


def vector_stats(values: np.ndarray) -> FeatureStats:
    """Statistics over the rows of (N, D) numbers."""
    numbers = values.astype(np.float64)
    return _stats(numbers, count=len(numbers), shape=(numbers.shape[1],))


def image_stats(images: list[np.ndarray]) -> FeatureStats:
    """Statistics over all pixels of (H, W, 3) images by channel, scaled to 1."""
    small = [_shrink(image).reshape(-1, 3) for image in images]
    return _stats(np.concatenate(small) / 255.0, count=len(images), shape=(3, 1, 1))


def merge_stats(parts: list[FeatureStats]) -> FeatureStats:
    """Merge the statistics of several episodes; quantiles are averaged by weight, as LeRobot does."""
    counts = np.array([part.count[0] for part in parts], dtype=np.float64)
    weights = counts / counts.sum()
    means = np.stack([part.mean for part in parts])
    mean = np.tensordot(weights, means, axes=1)
    variance = np.tensordot(weights, np.stack([part.std**2 for part in parts]) + (means - mean) ** 2, axes=1)
    quantiles = {
        name: np.tensordot(weights, np.stack([getattr(part, name) for part in parts]), axes=1) for name in QUANTILES
    }
    return FeatureStats(
        min=np.min([part.min for part in parts], axis=0),
        max=np.max([part.max for part in parts], axis=0),
        mean=mean,
        std=np.sqrt(variance),
        count=np.array([int(counts.sum())]),
        **quantiles,
    )


def _stats(rows: np.ndarray, *, count: int, shape: tuple[int, ...]) -> FeatureStats:
    found = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return FeatureStats(
        min=rows.min(axis=0).reshape(shape),
        max=rows.max(axis=0).reshape(shape),
        mean=rows.mean(axis=0).reshape(shape),
        std=rows.std(axis=0).reshape(shape),
        count=np.array([count]),
        **{name: value.reshape(shape) for name, value in zip(QUANTILES, found, strict=True)},
    )


def _shrink(image: np.ndarray) -> np.ndarray:
    factor = max(image.shape[:2]) // IMAGE_SIDE
    if factor < 2:
        return image
    size = (image.shape[1] // factor, image.shape[0] // factor)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
