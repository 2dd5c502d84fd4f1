"""How a policy searches for its best action, and which random numbers it draws on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STEPS_PER_SEED = 1000  # more than any episode has, so no two steps draw the same numbers
MOST_SAMPLES = 1024  # that one network may answer in one state


@dataclass(frozen=True, slots=True)
class CrossEntropySearch:
    """Draw actions within bounds, keep the best, draw again around them: QT-Opt's settings with one more round."""

    method: Literal["cem"] = "cem"
    samples: int = 64
    elites: int = 6
    rounds: int = 3
    # Each step draws from its own generator, seeded with 1000 times the episode's seed plus the step.
    randomness: Literal["seed_and_step"] = "seed_and_step"

    def __post_init__(self) -> None:
        if not 1 <= self.elites <= self.samples or self.rounds < 1:
            raise ValueError(
                f"{self.samples} samples, {self.elites} elites, {self.rounds} rounds: "
                "expected at least one round and 1 to samples elites"
            )

    def describe(self) -> str:
        return f"cem, {self.samples} samples, {self.elites} elites, {self.rounds} rounds, drawn by {self.randomness}"


@dataclass(frozen=True, slots=True)
class ChoiceSearch:
    """Compare every one of a few choices; nothing is drawn."""

    method: Literal["choices"] = "choices"

    def describe(self) -> str:
        return "every choice is compared"


@dataclass(frozen=True, slots=True)
class AnswerDraw:
    """A network that answers actions itself: its one answer is used, or one of several equally likely samples."""

    method: Literal["answer"] = "answer"
    samples: int = 1
    # Each step draws from its own generator, seeded with 1000 times the episode's seed plus the step.
    randomness: Literal["seed_and_step"] = "seed_and_step"

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise ValueError(f"samples is {self.samples}, expected 1 to {MOST_SAMPLES}")

    def describe(self) -> str:
        if self.samples == 1:
            return "the network's own answer"
        return f"one of the network's {self.samples} answers, drawn by {self.randomness}"


ActionSearch = CrossEntropySearch | ChoiceSearch | AnswerDraw


def search_seed(episode_seed: int, step: int) -> int:
    """The seed for the search of one step: the rule `seed_and_step` in a manifest."""
    return episode_seed * STEPS_PER_SEED + step
