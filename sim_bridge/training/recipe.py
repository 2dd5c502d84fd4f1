"""Training recipes: everything that makes one candidate differ from another, as YAML."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opc_ros.camera import CameraSpec
from opc_ros.config import described, load_config, parse_config
from opc_ros.documents import parse_yaml
from opc_ros.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
_CHOICE_STREAM = 1  # keeps the choice of episodes apart from other random numbers of the same seed


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """One training run; even its failure modes are settings."""

    name: str = described("run", "of the run; candidates are called NAME-STEP")
    family: str = described("", "what distinguishes its candidates; written into their manifests")
    architecture: str = described("target_crop", "whole_image, tool_crop or target_crop")
    hyper_parameters: dict[str, Any] = dataclasses.field(
        default_factory=dict, metadata={"meaning": "of the architecture"}
    )
    image_size: int = described(96, "pixels; larger images are shrunk to it", low=16, high=472)
    like: tuple[str, ...] = described(("*",), "shell patterns of the episode ids to learn from")
    episodes: int = described(0, "how many of them, drawn by the seed; 0: all", low=0)
    held_out: float = described(0.1, "share of episodes kept for SoftOPC while training", low=0.01, high=0.9)
    targets: Literal["bellman", "monte_carlo"] = described(
        "bellman", "reward plus best next Q, or the episode's outcome"
    )
    gamma: float = described(0.9, "discount for each step", low=0.0, high=1.0)
    steps: int = described(1000, "batches in all; far more than needed over-trains", low=1)
    checkpoints: tuple[int, ...] = described((), "steps at which to write a candidate, besides the last")
    batch_size: int = described(64, "transitions in each batch", low=1)
    closing_share: float = described(
        0.0,
        "share of a batch drawn only from steps that close the gripper, where position matters most",
        low=0.0,
        high=1.0,
    )
    learning_rate: float = described(1e-3, "of Adam", low=1e-7, high=1.0)
    final_rate: float = described(1.0, "fraction of it left at the last step; it falls evenly", low=0.0, high=1.0)
    averaging: float = described(
        0.0, "share of the past in the running average of weights that is written; 0: no average", low=0.0, high=0.9999
    )
    target_every: int = described(50, "steps between copies to the target network", low=1)
    cem_samples: int = described(24, "actions tried for the best next Q in each round", low=1)
    cem_rounds: int = described(2, "rounds of that search", low=1)
    dropout: float = described(0.0, "share of image features dropped while training", low=0.0, high=0.99)
    image_jitter: float = described(0.0, "random exposure, colour, noise and shift; 1 is strong", low=0.0, high=2.0)
    vain_stops: float = described(0.15, "share of a batch given to stops with an empty gripper", low=0.0, high=0.9)
    vain_closes: float = described(0.15, "share of a batch given to closing above all objects", low=0.0, high=0.9)
    doubts_regrips: bool = described(False, "whether vain stops of a shut gripper may close it once more on the way")
    shut_m: float = described(0.012, "aperture below which a gripper is known to hold nothing", low=0.0, high=0.08)
    action_gain: float = described(
        1.0, "displacements are multiplied by this in training only; other than 1 is a wrong scaling", low=0.01
    )
    camera: CameraSpec | None = dataclasses.field(
        default=None, metadata={"meaning": "of the images; default: the twin's standard camera"}
    )
    seed: int = described(0, "of everything random", low=0)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}, expected letters, digits and . _ + -, at most 80")
        outside = [step for step in self.checkpoints if not 0 < step <= self.steps]
        if outside:
            raise ValueError(f"checkpoint at step {outside[0]}, expected from 1 to {self.steps}")

    def writes_candidate_at(self, step: int) -> bool:
        return step == self.steps or step in self.checkpoints

    def candidate_name(self, step: int) -> str:
        return f"{self.name}-{step:05d}"

    def choose_episodes(self, episode_ids: Sequence[str]) -> list[int]:
        """Indices of the episodes to learn from, in order."""
        fitting = [i for i, name in enumerate(episode_ids) if any(fnmatchcase(name, p) for p in self.like)]
        if not self.episodes or self.episodes >= len(fitting):
            return fitting
        rng = np.random.default_rng((self.seed, _CHOICE_STREAM))
        return sorted(rng.choice(fitting, size=self.episodes, replace=False).tolist())


@dataclass(frozen=True, slots=True)
class RecipeBook:
    """A YAML file of recipes; what they share is written only once."""

    recipes: tuple[dict[str, Any], ...]
    shared: dict[str, Any] = dataclasses.field(default_factory=dict)


def load_recipes(path: Path | str, changes: Sequence[str] = ()) -> list[TrainingRecipe]:
    """All recipes of a file, with changes such as `steps=200` made to each."""
    book = load_config(path, RecipeBook)
    recipes = [
        make_recipe({**book.shared, **recipe}, changes, where=f"{path}: recipes[{index}]")
        for index, recipe in enumerate(book.recipes)
    ]
    names = [recipe.name for recipe in recipes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: name {name!r} given to {names.count(name)} recipes, expected one")
    return recipes


def make_recipe(values: dict[str, Any], changes: Sequence[str] = (), *, where: str = "recipe") -> TrainingRecipe:
    """A recipe from keys and values; a change is `key=value` with the value as YAML."""
    changed = dict(values)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise ConfigError(f"{where}: change {change!r}, expected KEY=VALUE")
        changed[key.strip()] = parse_yaml(text.encode(), where=f"{where}: change {change!r}")
    return parse_config(changed, TrainingRecipe, where=where)


def describe_keys() -> list[str]:
    """One line for each key of a recipe: name, default, meaning."""
    default = TrainingRecipe()
    return [
        f"{field.name}: {getattr(default, field.name)!r}  # {field.metadata['meaning']}"
        for field in dataclasses.fields(TrainingRecipe)
    ]
