"""How frames become the images that a candidate sees: their size, and whether they are decoded in full or reduced."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import cv2
import numpy as np

from opc_ros.episode import Frame
from opc_ros.grasp import Observation


@dataclass(frozen=True, slots=True)
class ImageView:
    """How scorer and robot turn a frame into one candidate's image; both call the same two functions."""

    size: tuple[int, int]  # height, width
    is_reduced: bool = False  # JPEG decoded no larger than needed

    def show(self, frame: Frame) -> np.ndarray:
        """The frame as the candidate sees it, (H, W, 3) RGB bytes."""
        return resize_image(frame.decode_reduced(self.size) if self.is_reduced else frame.decode(), self.size)

    def show_observation(self, observation: Observation) -> np.ndarray:
        """The same for an arm's observation; without the camera's original bytes there is nothing to decode smaller."""
        if self.is_reduced and observation.frame is not None:
            return self.show(observation.frame)
        return resize_image(observation.image, self.size)


def show_in_each(frame: Frame, views: Collection[ImageView]) -> dict[ImageView, np.ndarray]:
    """One frame in several views; it is decoded in full at most once."""
    images = {view: view.show(frame) for view in views if view.is_reduced}
    others = [view for view in views if not view.is_reduced]
    if others:
        whole = frame.decode()
        images |= {view: resize_image(whole, view.size) for view in others}
    return images


def resize_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The image at (height, width); training, scoring and robots all resize with this function."""
    height, width = size
    if image.shape[:2] == (height, width):
        return image
    is_shrunk = height <= image.shape[0] and width <= image.shape[1]
    interpolation = cv2.INTER_AREA if is_shrunk else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=interpolation), dtype=np.uint8)
