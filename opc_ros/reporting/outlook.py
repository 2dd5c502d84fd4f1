"""What a lab expects of its candidates: predicted success, the gate's verdict, champion, previous ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CandidateOutlook:
    """One candidate's prospects, by scores and results together."""

    expected: float  # success rate
    low: float  # of the 95 % interval
    high: float
    near: float  # probability of being within the tolerance of the best
    successes: int  # of real episodes
    trials: int
    verdict: str = ""  # pass, open or refused; empty if no gate was asked
    reason: str = ""
    place_before: int | None = None  # None: it was not in the previous ranking


@dataclass(frozen=True, slots=True)
class CheckedPrediction:
    """What the results of other families alone predict for a candidate that has run."""

    name: str
    low: float
    expected: float
    high: float
    successes: int
    trials: int
    is_inside: bool  # whether the number of successes lies in the predicted 95 % interval


@dataclass(frozen=True, slots=True)
class Outlook:
    """The prospects of a whole field."""

    candidates: tuple[CandidateOutlook, ...]  # in the ranking's order
    tolerance: float
    gate: str  # the file of the gate's rules; empty if no gate was asked
    champion_id: str
    before_id: str  # of the previous ranking; empty if there is none
    before_made_at: str
    checked: tuple[CheckedPrediction, ...] = ()


@dataclass(frozen=True, slots=True)
class Glimpse:
    """One episode of the validation set, as a small image with a link."""

    episode_id: str
    robot: str
    is_success: bool
    mean_q: float  # according to the top candidate
    jpeg: str  # base64, of its last frame
    link: str  # relative path to its file; empty if unknown


@dataclass(frozen=True, slots=True)
class GroupScore:
    """One candidate's score on the episodes of one robot or object set; None if all had the same outcome."""

    group: str
    scores: tuple[float | None, ...]  # in the ranking's order
    episodes: int
    successes: int
