"""How far a world deviates from its nominal design, level by level; all random numbers come from a given generator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from sim_bridge.camera import CameraShift
from sim_bridge.textures import TEXTURE_COUNT

Rgb = tuple[float, float, float]
Range = tuple[float, float]
NO_TEXTURE = -1


class Level(StrEnum):
    """Randomisation levels; pseudo-real ones take the place of hardware and are never trained on."""

    NONE = "none"
    MILD = "mild"  # textures, colours, light
    HEAVY = "heavy"  # also arm and tray pose, divider, backgrounds
    ROUGH = "rough"  # appearance, and random flaws of image, camera, contact and motion, for training
    PSEUDO_REAL = "pseudo_real"  # also noise, blur, exposure, cables, clutter, friction, mass, latency, gripper play
    SECOND_PSEUDO_REAL = "second_pseudo_real"  # the same kinds of flaws in another lab

    @property
    def stands_for_hardware(self) -> bool:
        return self in (Level.PSEUDO_REAL, Level.SECOND_PSEUDO_REAL)


@dataclass(frozen=True, slots=True)
class Surface:
    """Colour of a body, with or without a texture of the bank."""

    rgb: Rgb
    texture: int = NO_TEXTURE


@dataclass(frozen=True, slots=True)
class Light:
    """One lamp plus ambient light."""

    direction: tuple[float, float, float] = (-0.4, -0.8, 1.6)
    rgb: Rgb = (1.0, 1.0, 1.0)
    ambient: float = 0.6
    diffuse: float = 0.45
    specular: float = 0.05


@dataclass(frozen=True, slots=True)
class PlanarOffset:
    """A displacement and rotation of a body on the table."""

    x_m: float = 0.0
    y_m: float = 0.0
    yaw_rad: float = 0.0


@dataclass(frozen=True, slots=True)
class ImageFlaws:
    """What a real sensor adds to an image."""

    noise: float = 0.0  # standard deviation in grey values
    blur_px_at_472: float = 0.0  # standard deviation of the blur, for an image of 472 pixels
    gain: Rgb = (1.0, 1.0, 1.0)  # exposure and white balance
    vignette: float = 0.0  # how much darker the corners are


@dataclass(frozen=True, slots=True)
class Touch:
    """Properties of contact and motion."""

    friction: float = 1.0
    mass_scale: float = 1.0
    latency_s: float = 0.0  # from command to motion
    gripper_play_m: float = 0.0  # fingers stop this far from the commanded position


@dataclass(frozen=True, slots=True)
class Variation:
    """Everything in which one laid-out world deviates from the nominal design."""

    tray: Surface = Surface((0.75, 0.75, 0.75))
    table: Surface = Surface((0.55, 0.47, 0.38))
    arm: Surface = Surface((0.9, 0.9, 0.9))
    objects: tuple[Surface, ...] = ()  # one for each object; empty: as in the object's file
    light: Light = Light()
    arm_offset: PlanarOffset = PlanarOffset()
    home_offset: PlanarOffset = PlanarOffset()
    tray_offset: PlanarOffset = PlanarOffset()
    divider: PlanarOffset | None = None  # in the tray's frame
    clutter: tuple[PlanarOffset, ...] = ()  # in the room
    cables: tuple[PlanarOffset, ...] = ()
    flaws: ImageFlaws = ImageFlaws()
    touch: Touch = Touch()
    camera_shift: CameraShift = CameraShift()  # noqa: RUF009  # frozen, so one serves all


def draw_variation(level: Level, objects: int, rng: np.random.Generator) -> Variation:
    """One random world of a level."""
    if level is Level.NONE:
        return Variation()
    if level is Level.MILD:
        return Variation(**_draw_look(objects, rng))
    if level is Level.HEAVY:
        return Variation(**{**_draw_look(objects, rng), **_draw_layout(rng)})
    if level is Level.ROUGH:
        return _draw_rough(objects, rng)
    return _draw_room(_SECOND_PSEUDO_REAL if level is Level.SECOND_PSEUDO_REAL else _PSEUDO_REAL, objects, rng)


def _draw_look(objects: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "tray": _draw_surface(rng),
        "table": Surface(_draw_rgb(rng)),
        "arm": Surface(_draw_rgb(rng, low=0.3)),
        "objects": tuple(_draw_surface(rng) for _ in range(objects)),
        "light": _draw_light(rng),
    }


def _draw_layout(rng: np.random.Generator) -> dict[str, Any]:
    has_divider = rng.random() < 0.5
    return {
        "table": Surface(_draw_rgb(rng, low=0.3), texture=int(rng.integers(TEXTURE_COUNT))),
        "arm_offset": _draw_offset(rng, reach_m=0.015, turn_rad=0.04),
        "home_offset": _draw_offset(rng, reach_m=0.04, turn_rad=0.5),
        "tray_offset": _draw_offset(rng, reach_m=0.02, turn_rad=0.15),
        "divider": _draw_offset(rng, reach_m=0.02, turn_rad=math.pi) if has_divider else None,
    }


def _draw_rough(objects: int, rng: np.random.Generator) -> Variation:
    """Every kind of flaw that hardware has, each from none to more than most labs have."""
    red, green, blue = rng.uniform(0.7, 1.3) * rng.uniform(0.92, 1.08, size=3)
    return Variation(
        **{**_draw_look(objects, rng), "table": _draw_surface(rng)},
        home_offset=_draw_offset(rng, reach_m=0.03, turn_rad=0.3),
        tray_offset=_draw_offset(rng, reach_m=0.012, turn_rad=0.08),
        flaws=ImageFlaws(
            noise=float(rng.uniform(0.0, 9.0)),
            blur_px_at_472=float(rng.uniform(0.0, 3.0)),
            gain=(red, green, blue),
            vignette=float(rng.uniform(0.0, 0.35)),
        ),
        touch=Touch(
            friction=float(rng.uniform(0.45, 1.1)),
            mass_scale=float(rng.uniform(0.7, 2.2)),
            latency_s=float(rng.uniform(0.0, 0.1)),
            gripper_play_m=float(rng.uniform(0.0, 0.005)),
        ),
        camera_shift=_draw_camera_shift(rng),
    )


def _draw_camera_shift(rng: np.random.Generator) -> CameraShift:
    """0.8 pixels of 96 on average, hardly ever more than 2."""
    ex, ey, ez = rng.uniform(-0.015, 0.015, size=3).tolist()
    tx, ty, tz = rng.uniform(-0.005, 0.005, size=3).tolist()
    return CameraShift((ex, ey, ez), (tx, ty, tz), float(rng.uniform(-0.015, 0.015)), float(rng.uniform(0.985, 1.015)))


@dataclass(frozen=True, slots=True)
class _Room:
    """A lab that stands for hardware: what it looks like, and from where to where its flaws reach."""

    tray: Surface
    table: Surface
    arm: Surface
    darkest_object: float
    exposure: Range
    tint: Range
    lamp: tuple[float, float, float]  # where it hangs, give or take a drift to either side
    lamp_rgb: Rgb
    ambient: Range
    diffuse: Range
    specular: float
    tray_reach_m: float
    tray_turn_rad: float
    noise: Range
    blur_px_at_472: Range
    vignette: float
    friction: Range
    mass_scale: Range
    latency_s: Range
    gripper_play_m: Range


_PSEUDO_REAL = _Room(
    tray=Surface((0.50, 0.56, 0.62), texture=1),
    table=Surface((0.95, 0.93, 0.88), texture=8),
    arm=Surface((0.95, 0.93, 0.88)),
    darkest_object=0.15,
    exposure=(0.75, 1.2),
    tint=(0.94, 1.06),
    lamp=(0.7, 0.5, 1.1),
    lamp_rgb=(1.0, 0.95, 0.85),
    ambient=(0.4, 0.5),
    diffuse=(0.5, 0.65),
    specular=0.15,
    tray_reach_m=0.006,
    tray_turn_rad=0.03,
    noise=(3.0, 7.0),
    blur_px_at_472=(1.0, 2.2),
    vignette=0.25,
    friction=(0.55, 0.75),
    mass_scale=(1.2, 1.9),
    latency_s=(0.03, 0.08),
    gripper_play_m=(0.001, 0.004),
)
# Another room: darker, lit from the other side, a slippery tray, a sharper and noisier camera, a quicker arm.
_SECOND_PSEUDO_REAL = _Room(
    tray=Surface((0.62, 0.55, 0.45), texture=4),
    table=Surface((0.45, 0.50, 0.48), texture=13),
    arm=Surface((0.85, 0.86, 0.90)),
    darkest_object=0.2,
    exposure=(0.8, 1.25),
    tint=(0.92, 1.08),
    lamp=(-0.6, 0.8, 1.3),
    lamp_rgb=(0.88, 0.94, 1.0),
    ambient=(0.35, 0.45),
    diffuse=(0.45, 0.7),
    specular=0.05,
    tray_reach_m=0.008,
    tray_turn_rad=0.04,
    noise=(5.0, 9.0),
    blur_px_at_472=(0.3, 1.2),
    vignette=0.1,
    friction=(0.5, 0.65),
    mass_scale=(0.8, 1.3),
    latency_s=(0.01, 0.05),
    gripper_play_m=(0.002, 0.005),
)


def _draw_room(room: _Room, objects: int, rng: np.random.Generator) -> Variation:
    """In the order in which it is written: seeds of recorded sets depend on it."""
    exposure = rng.uniform(*room.exposure)
    red, green, blue = exposure * rng.uniform(*room.tint, size=3)
    drift = rng.uniform(-0.25, 0.25, size=2)
    x, y, z = room.lamp
    return Variation(
        tray=room.tray,
        table=room.table,
        arm=room.arm,
        objects=tuple(Surface(_draw_rgb(rng, low=room.darkest_object)) for _ in range(objects)),
        light=Light(
            direction=(x + drift[0], y + drift[1], z),
            rgb=room.lamp_rgb,
            ambient=float(rng.uniform(*room.ambient)),
            diffuse=float(rng.uniform(*room.diffuse)),
            specular=room.specular,
        ),
        tray_offset=_draw_offset(rng, reach_m=room.tray_reach_m, turn_rad=room.tray_turn_rad),
        clutter=tuple(_draw_beside_tray(rng) for _ in range(3)),
        cables=tuple(_draw_beside_tray(rng) for _ in range(2)),
        flaws=ImageFlaws(
            noise=float(rng.uniform(*room.noise)),
            blur_px_at_472=float(rng.uniform(*room.blur_px_at_472)),
            gain=(red, green, blue),
            vignette=room.vignette,
        ),
        touch=Touch(
            friction=float(rng.uniform(*room.friction)),
            mass_scale=float(rng.uniform(*room.mass_scale)),
            latency_s=float(rng.uniform(*room.latency_s)),
            gripper_play_m=float(rng.uniform(*room.gripper_play_m)),
        ),
    )


def _draw_rgb(rng: np.random.Generator, *, low: float = 0.1) -> Rgb:
    red, green, blue = rng.uniform(low, 1.0, size=3).tolist()
    return red, green, blue


def _draw_surface(rng: np.random.Generator) -> Surface:
    """Half of all surfaces are plain."""
    rgb = _draw_rgb(rng)
    texture = int(rng.integers(TEXTURE_COUNT))
    return Surface(rgb, texture if rng.random() < 0.5 else NO_TEXTURE)


def _draw_light(rng: np.random.Generator) -> Light:
    around = rng.uniform(-math.pi, math.pi)
    slant = rng.uniform(0.2, 1.2)
    return Light(
        direction=(slant * math.cos(around), slant * math.sin(around), 1.2),
        rgb=_draw_rgb(rng, low=0.75),
        ambient=float(rng.uniform(0.35, 0.75)),
        diffuse=float(rng.uniform(0.2, 0.6)),
        specular=float(rng.uniform(0.0, 0.25)),
    )


def _draw_offset(rng: np.random.Generator, *, reach_m: float, turn_rad: float) -> PlanarOffset:
    x, y = rng.uniform(-reach_m, reach_m, size=2).tolist()
    return PlanarOffset(x, y, float(rng.uniform(-turn_rad, turn_rad)))


def _draw_beside_tray(rng: np.random.Generator) -> PlanarOffset:
    """A place on the table beside the tray, as an offset from the tray's centre."""
    around = rng.uniform(-math.pi, math.pi)
    away = rng.uniform(0.25, 0.32)
    return PlanarOffset(away * math.cos(around), away * math.sin(around), float(rng.uniform(-math.pi, math.pi)))
