"""The gate's verdict on a candidate, and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNSIGNED_RULE = "signed"  # the queue claims something that nobody has signed; an approval does not help
STALE_RULE = "since_approval"  # the gate now finds something worse than the approver was shown
# Findings that further episodes at reduced speed can resolve.
UNPROVEN = frozenset({"within", "floor", "top_k", "shown"})


class Verdict(StrEnum):
    """The gate's three possible answers."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # a person has to decide, or further episodes at reduced speed


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one rule; the sentence says what was found and what the rule requires."""

    rule: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict and the findings behind it: any failure makes it fail, any doubt leaves it inconclusive."""

    candidate_id: str
    ranking_id: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        said = {finding.verdict for finding in self.findings}
        if Verdict.FAIL in said or not said:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in said else Verdict.PASS

    @property
    def reasons(self) -> tuple[str, ...]:
        """The findings that decided it: for a pass, why it passes; otherwise, why it does not."""
        verdict = self.verdict
        return tuple(finding.sentence for finding in self.findings if finding.verdict is verdict)

    @property
    def is_signed(self) -> bool:
        """Whether people really signed what the queue attributes to them."""
        return all(finding.rule != UNSIGNED_RULE for finding in self.findings if finding.verdict is Verdict.FAIL)

    @property
    def is_approval_stale(self) -> bool:
        """Whether the gate now finds something worse than the approver was shown."""
        return any(finding.rule == STALE_RULE for finding in self.findings)

    def goes_unasked(self, *, is_exploration: bool) -> bool:
        """Whether it needs nobody's approval: it passes, or only more episodes can settle it.

        Results may cast doubt on a candidate that once passed; the race settles that, not a person.
        """
        is_in_doubt = self.verdict is Verdict.INCONCLUSIVE or is_exploration
        return self.verdict is Verdict.PASS or (is_in_doubt and self.is_explorable)

    @property
    def is_explorable(self) -> bool:
        """Whether it may have an exploration slot: the only objection is that too little has been shown.

        A candidate that is surely far from the best, or below the floor, may not: that would waste robot time.
        """
        open_ones = [finding for finding in self.findings if finding.verdict is not Verdict.PASS]
        is_probably_poor = any(each.rule != "top_k" and each.verdict is Verdict.FAIL for each in open_ones)
        return bool(open_ones) and not is_probably_poor and {each.rule for each in open_ones} <= UNPROVEN


@dataclass(frozen=True, slots=True)
class RealResult:
    """A candidate's results on real arms."""

    successes: int
    trials: int

    @property
    def rate(self) -> float:
        return self.successes / self.trials
