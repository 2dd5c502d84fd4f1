"""Draws one image of the worlds side by side: `python -m sim_bridge.draw_worlds --out worlds.webp`."""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from opc_ros.grasp import GraspAction
from sim_bridge.twin_arm import TwinArm
from sim_bridge.worlds import find_world

WORLDS_DRAWN = ("train", "train_mild", "train_heavy", "train_rough", "pseudo_real")
_CAPTION_PX = 28


def draw_worlds(*, size: int, seed: int) -> np.ndarray:
    """One layout of each world with the arm on its way down, (H, W, 3) RGB."""
    panels = []
    for name in WORLDS_DRAWN:
        arm = TwinArm(find_world(name), image_size=size)
        arm.begin(seed)
        arm.apply(GraspAction(displacement_m=(0.04, 0.05, -0.08), rotation_rad=0.4))
        panel = cv2.copyMakeBorder(
            arm.observe().image, _CAPTION_PX, 0, 2, 2, cv2.BORDER_CONSTANT, value=(255, 255, 255)
        )
        arm.close()
        cv2.putText(panel, name, (6, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (20, 20, 20), 1, cv2.LINE_AA)
        panels.append(np.asarray(panel))
    return np.hstack(panels)


def main() -> None:
    """Write the image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("sim_bridge/docs/worlds.webp"))
    parser.add_argument("--size", type=int, default=300, help="pixels of each world")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    image = draw_worlds(size=arguments.size, seed=arguments.seed)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(arguments.out), cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_WEBP_QUALITY, 80])
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
