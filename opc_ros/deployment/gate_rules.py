"""Rules of the gate, as `config/gate.yaml` gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ApprovalCase = Literal["no_champion", "agreement_unknown", "every_request"]


def _check_order(name: str, doubt: float, confidence: float) -> None:
    if not 0.0 <= doubt <= confidence <= 1.0:
        raise ValueError(f"{name}: doubt {doubt} and confidence {confidence}, expected 0 to 1, in order")


@dataclass(frozen=True, slots=True)
class WithinRules:
    """How surely a candidate must be about as good as the best."""

    tolerance: float  # success rate that it may lie below the best
    confidence: float  # probability of that from which on it passes
    doubt: float  # below it fails; in between episodes at reduced speed decide, or a person

    def __post_init__(self) -> None:
        _check_order("within", self.doubt, self.confidence)
        if not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"within: tolerance is {self.tolerance}, expected between 0 and 1")


@dataclass(frozen=True, slots=True)
class FloorRules:
    """How surely a candidate must succeed often enough, however good the others are."""

    success: float
    confidence: float
    doubt: float

    def __post_init__(self) -> None:
        _check_order("floor", self.doubt, self.confidence)
        if not 0.0 <= self.success < 1.0:
            raise ValueError(f"floor: success is {self.success}, expected from 0 to below 1")


@dataclass(frozen=True, slots=True)
class TopKRules:
    """For those who want it: how surely a candidate's score must be among the k best."""

    k: int
    confidence: float
    doubt: float

    def __post_init__(self) -> None:
        _check_order("top_k", self.doubt, self.confidence)
        if self.k < 1:
            raise ValueError(f"top_k: k is {self.k}, expected at least 1")


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """The smallest validation set a ranking may rest on."""

    episodes: int
    successes: int
    failures: int
    age_days: float  # of its newest episode, at most
    robots: int  # how many different ones it must cover
    tag: str = ""  # the ranking must rest on the snapshot with this tag; empty: on whichever it names


@dataclass(frozen=True, slots=True)
class AgreementRules:
    """How well scores must predict real success, over the whole field."""

    spearman: float  # the gate closes when rank correlation is surely below this

    def __post_init__(self) -> None:
        if not -1.0 <= self.spearman <= 1.0:
            raise ValueError(f"agreement: spearman is {self.spearman}, expected from -1 to 1")


@dataclass(frozen=True, slots=True)
class HiddenRules:
    """How unlikely it may be, by luck, that a candidate leads so far on shown episodes over hidden ones."""

    person: float = 0.01  # below this a person decides; also the rate of honest candidates flagged by chance
    fail: float = 0.0001  # below, the gate says no

    def __post_init__(self) -> None:
        if not 0.0 <= self.fail <= self.person <= 0.01:
            raise ValueError(f"hidden: fail {self.fail} and person {self.person}, expected from 0 to 0.01, in order")


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How much of what its Q promises a candidate's own action search may miss."""

    states: int = 8  # fewest in which the search must have been looked at; with fewer a person decides
    person: float = 0.2  # above this a person decides
    fail: float = 0.4  # above, the gate says no
    reach: float = 0.25  # how far its actions must be able to go, of what the task allows; below a person decides

    def __post_init__(self) -> None:
        if self.states < 1:
            raise ValueError(f"search: states is {self.states}, expected at least 1")
        if not 0.0 <= self.reach <= 1.0:
            raise ValueError(f"search: reach is {self.reach}, expected from 0 to 1")
        if not 0.0 <= self.person <= self.fail <= 1.0:
            raise ValueError(f"search: person {self.person} and fail {self.fail}, expected 0 to 1, in order")


@dataclass(frozen=True, slots=True)
class GateRules:
    """Everything in config/gate.yaml."""

    metric: str
    within: WithinRules
    floor: FloorRules
    snapshot: SnapshotRules
    agreement: AgreementRules
    prior: float = 1.0  # p(y=1) of the ranking
    resamples: int = 2000  # of the ranking's bootstrap, at least
    seed: int = 0  # of the ranking's bootstrap
    candidates: int = 1  # fewest that a ranking must hold
    top_k: TopKRules | None = None
    judged_episodes: int = 10  # real ones of its own that a candidate needs where no Q is scored, but its actions are
    hidden: HiddenRules = field(default_factory=HiddenRules)
    search: SearchRules = field(default_factory=SearchRules)
    approval: tuple[ApprovalCase, ...] = field(default=())  # cases in which a person must approve

    def __post_init__(self) -> None:
        if self.judged_episodes < 1:
            raise ValueError(f"judged_episodes is {self.judged_episodes}, expected 1 or more: nobody passes by a judge")
