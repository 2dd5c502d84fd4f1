"""Each level varies what it should, and nothing that it should not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sim_bridge.randomization import Level, Variation, draw_variation
from sim_bridge.textures import PSEUDO_REAL_BANK, TEXTURE_COUNT, paint_texture

LOOK = {"tray", "table", "arm", "objects", "light"}
LAYOUT = {"arm_offset", "home_offset", "tray_offset", "divider"}
HARDWARE = {"clutter", "cables", "flaws", "touch"}


def varied_fields(level: Level) -> set[str]:
    """Fields that differ from the nominal design in any of 20 draws."""
    drawings = Variation()
    draws = [draw_variation(level, 5, np.random.default_rng(seed)) for seed in range(20)]
    names = [field.name for field in dataclasses.fields(Variation)]
    return {name for name in names if any(getattr(draw, name) != getattr(drawings, name) for draw in draws)}


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (Level.NONE, set()),
        (Level.MILD, LOOK),
        (Level.HEAVY, LOOK | LAYOUT),
        (Level.ROUGH, LOOK | {"home_offset", "tray_offset", "flaws", "touch", "camera_shift"}),
        (Level.PSEUDO_REAL, LOOK | HARDWARE | {"tray_offset"}),
        (Level.SECOND_PSEUDO_REAL, LOOK | HARDWARE | {"tray_offset"}),
    ],
)
def test_a_level_varies_exactly_its_own(level: Level, expected: set[str]) -> None:
    assert varied_fields(level) == expected


@pytest.mark.parametrize("level", Level)
def test_a_draw_follows_from_its_seed(level: Level) -> None:
    one, same, other = (draw_variation(level, 5, np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert one == same
    assert (one == other) == (level is Level.NONE)


def test_pseudo_real_textures_are_not_among_those_of_training() -> None:
    training = {paint_texture(number).tobytes() for number in range(TEXTURE_COUNT)}
    assert len(training) == TEXTURE_COUNT
    assert not training & {paint_texture(PSEUDO_REAL_BANK + number).tobytes() for number in range(TEXTURE_COUNT)}
