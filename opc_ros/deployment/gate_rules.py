"""Rules of the gate, as set in `config/gate.yaml`."""

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

    tolerance: float  # how far below the best its success rate may lie
    confidence: float  # passes at or above this probability
    doubt: float  # fails below it; in between, episodes at reduced speed decide, or a person

    def __post_init__(self) -> None:
        _check_order("within", self.doubt, self.confidence)
        if not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"within: tolerance is {self.tolerance}, expected between 0 and 1")


@dataclass(frozen=True, slots=True)
class FloorRules:
    """How surely a candidate must reach a minimum success rate, however good the others are."""

    success: float
    confidence: float
    doubt: float

    def __post_init__(self) -> None:
        _check_order("floor", self.doubt, self.confidence)
        if not 0.0 <= self.success < 1.0:
            raise ValueError(f"floor: success is {self.success}, expected from 0 to below 1")


@dataclass(frozen=True, slots=True)
class TopKRules:
    """Optional: how surely a candidate's score must be among the k best."""

    k: int
    confidence: float
    doubt: float

    def __post_init__(self) -> None:
        _check_order("top_k", self.doubt, self.confidence)
        if self.k < 1:
            raise ValueError(f"top_k: k is {self.k}, expected at least 1")


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """The smallest validation set that a ranking may rest on."""

    episodes: int
    successes: int
    failures: int
    age_days: float  # the newest episode may be at most this old
    robots: int  # number of different robots it must cover
    tag: str = ""  # the ranking must rest on the snapshot with this tag; empty: any snapshot will do


@dataclass(frozen=True, slots=True)
class AgreementRules:
    """How well scores must predict real success, over the whole field."""

    spearman: float  # the gate closes when the rank correlation is surely below this

    def __post_init__(self) -> None:
        if not -1.0 <= self.spearman <= 1.0:
            raise ValueError(f"agreement: spearman is {self.spearman}, expected from -1 to 1")


@dataclass(frozen=True, slots=True)
class HiddenRules:
    """When a lead on the shown episodes over the hidden ones is too unlikely to be luck."""

    person: float = 0.01  # below this probability a person decides; honest candidates are flagged at this rate
    fail: float = 0.0001  # below this probability the gate refuses

    def __post_init__(self) -> None:
        if not 0.0 <= self.fail <= self.person <= 0.01:
            raise ValueError(f"hidden: fail {self.fail} and person {self.person}, expected from 0 to 0.01, in order")


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How much of the value that its Q promises a candidate's own action search may miss."""

    states: int = 8  # fewest states in which the search must have been checked; with fewer, a person decides
    person: float = 0.2  # above this share a person decides
    fail: float = 0.4  # above this share the gate refuses
    reach: float = 0.25  # share of the task's action range that its actions must reach; below it, a person decides

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
    prior: float = 1.0  # p(y=1) that the ranking must use
    resamples: int = 2000  # minimum for the ranking's bootstrap
    seed: int = 0  # that the ranking's bootstrap must use
    candidates: int = 1  # minimum number of candidates in a ranking
    top_k: TopKRules | None = None
    judged_episodes: int = 10  # real episodes it needs where a judge scores its actions instead of its Q
    hidden: HiddenRules = field(default_factory=HiddenRules)
    search: SearchRules = field(default_factory=SearchRules)
    approval: tuple[ApprovalCase, ...] = field(default=())  # cases in which a person must approve

    def __post_init__(self) -> None:
        if self.judged_episodes < 1:
            raise ValueError(f"judged_episodes is {self.judged_episodes}, expected 1 or more: nobody passes by a judge")
