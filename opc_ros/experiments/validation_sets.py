"""The validation sets of the grasping experiment: who plays how many episodes in which world, and their collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.errors import ConfigError
from opc_ros.policies.candidate import Candidate
from opc_ros.progress import Report, ignore_progress
from opc_ros.store import Store
from sim_bridge.collecting import CollectionPlan, Plan, collect
from sim_bridge.training.own_play import plan_own_play

FIRST_SEED = 500_000  # training data begins at 0, trials of true success at 1,000,000
IMAGE_SIZE = 96
EPSILON = 0.1  # how often an earlier policy acts at random while it collects episodes
COLUMNS = ("train", "test", "pseudo_real")  # worlds, in the paper's order
JUDGING_WORLD = "second_pseudo_real"  # a challenger to the default score is judged there, once (decision 14)
MIXED, SCRIPTED, OWN_PLAY, MOSTLY_RANDOM = "mixed", "scripted", "own play", "mostly_random"

# Scripted policies of each world, and their share of a scripted set.
_SCRIPTED: dict[str, tuple[str, ...]] = {
    "train": ("scripted",),
    "test": ("scripted",),
    "pseudo_real": ("weaker", "better"),
    JUDGING_WORLD: ("weaker", "better"),
}


@dataclass(frozen=True, slots=True)
class Budget:
    """How many episodes are played for each world."""

    scripted: int
    own_play: int  # of each earlier policy
    mostly_random: int  # on train objects
    with_greedy: int  # episodes of each set on which greedy actions are searched, for the three baselines

    def __post_init__(self) -> None:
        if min(self.scripted, self.own_play, self.mostly_random, self.with_greedy) < 2:
            raise ConfigError(f"budget {self}: expected at least 2 episodes of everything")

    @classmethod
    def of_scale(cls, scale: float) -> Budget:
        """Sizes at this scale; the published results used 0.25."""
        if not 0.0 < scale <= 100.0:
            raise ConfigError(f"budget is {scale:g}, expected above 0 and at most 100")
        return cls(*(max(2, round(scale * count)) for count in (600, 30, 1000, 200)))


@dataclass(frozen=True, slots=True)
class Part:
    """Episodes of one policy in one world."""

    label: str  # the scripted policy's name, or the earlier candidate's
    plan: Plan
    seeds: range
    is_learned: bool = False

    def episode_ids(self) -> list[str]:
        return [self.plan.episode_id(seed) for seed in self.seeds]


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """Named episodes of one world."""

    name: str
    world: str
    parts: tuple[Part, ...]
    episode_ids: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        ids = frozenset(episode_id for part in self.parts for episode_id in part.episode_ids())
        object.__setattr__(self, "episode_ids", ids)


def plan_sets(
    world: str, budget: Budget, earlier: Sequence[Candidate], *, first_seed: int = FIRST_SEED
) -> tuple[ValidationSet, ...]:
    """All validation sets of one world, the main one first; every scene is played by one policy only."""
    scripted = tuple(_scripted_parts(world, budget, first_seed))
    learned = tuple(_own_play_parts(world, budget, earlier, first_seed))
    sets = [ValidationSet(MIXED, world, (*scripted, *learned)), ValidationSet(SCRIPTED, world, scripted)]
    if learned:
        sets.append(ValidationSet(OWN_PLAY, world, learned))
    if len(scripted) > 1:
        sets += [ValidationSet(part.label, world, (part,)) for part in scripted]
    if world == "train":
        plan = CollectionPlan(world, "mostly_random", IMAGE_SIZE)
        start = first_seed + 200_000
        seeds = range(start, start + budget.mostly_random)
        sets.append(ValidationSet(MOSTLY_RANDOM, world, (Part(MOSTLY_RANDOM, plan, seeds),)))
    return tuple(sets)


def _scripted_parts(world: str, budget: Budget, first_seed: int) -> Iterator[Part]:
    policies = _SCRIPTED[world]
    each = budget.scripted // len(policies)
    for index, policy in enumerate(policies):
        start = first_seed + index * 50_000
        yield Part(policy, CollectionPlan(world, policy, IMAGE_SIZE), range(start, start + each))


def _own_play_parts(world: str, budget: Budget, earlier: Sequence[Candidate], first_seed: int) -> Iterator[Part]:
    for index, candidate in enumerate(sorted(earlier, key=lambda found: found.name)):
        start = first_seed + 100_000 + index * 1000
        plan = plan_own_play(candidate.folder, world, epsilon=EPSILON)
        yield Part(candidate.name, plan, range(start, start + budget.own_play), is_learned=True)


def collect_missing(
    store: Store, sets: Sequence[ValidationSet], *, workers: int, report: Report = ignore_progress
) -> int:
    """Play what the store lacks and return how many episodes that was; an interrupted collection resumes."""
    there = set(store.episode_ids())
    parts = {part.label: part for validation_set in sets for part in validation_set.parts}.values()
    missing = [(part, [s for s in part.seeds if part.plan.episode_id(s) not in there]) for part in parts]
    total = sum(len(part.seeds) for part in parts)
    added = 0
    done = total - sum(len(seeds) for _, seeds in missing)
    for part, seeds in missing:
        for episode in collect(part.plan, seeds, workers=workers) if seeds else ():
            store.append(episode)
            added += 1
            report(done + added, total, f"{part.label} in {part.plan.world}")
    return added


def store_folder(data: Path, world: str) -> Path:
    """The folder for the episodes of one world."""
    return data / world
