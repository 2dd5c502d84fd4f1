"""What a gate says about a candidate, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNSIGNED_RULE = "signed"  # the queue says what nobody has signed; no approval helps against that
STALE_RULE = "since_approval"  # the gate finds worse than its approver was shown
# Findings that episodes at reduced speed can settle.
UNPROVEN = frozenset({"within", "floor", "top_k", "shown"})


class Verdict(StrEnum):
    """The three answers of a gate."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # a person has to decide, or episodes at reduced speed


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says; its sentence gives what was found and what the rule asks for."""

    rule: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with the findings it follows from: one failure fails, one doubt leaves it open."""

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
        """Why it is not a pass; for a pass, why it is one."""
        verdict = self.verdict
        return tuple(finding.sentence for finding in self.findings if finding.verdict is verdict)

    @property
    def is_signed(self) -> bool:
        """Whether people really signed what the queue attributes to them."""
        return all(finding.rule != UNSIGNED_RULE for finding in self.findings if finding.verdict is Verdict.FAIL)

    @property
    def is_approval_stale(self) -> bool:
        """Whether somebody approved of less than what the gate finds now."""
        return any(finding.rule == STALE_RULE for finding in self.findings)

    def goes_unasked(self, *, is_exploration: bool) -> bool:
        """Nobody need approve: it passes, or only episodes can tell.

        Results may cast doubt on a candidate that once passed; the race, not a person, finds out.
        """
        is_in_doubt = self.verdict is Verdict.INCONCLUSIVE or is_exploration
        return self.verdict is Verdict.PASS or (is_in_doubt and self.is_explorable)

    @property
    def is_explorable(self) -> bool:
        """Nothing speaks against it but that too little has been shown: it may have an exploration slot.

        A candidate that is surely far from the best, or below the floor, may not: nobody wants to watch it fail.
        """
        open_ones = [finding for finding in self.findings if finding.verdict is not Verdict.PASS]
        is_probably_poor = any(each.rule != "top_k" and each.verdict is Verdict.FAIL for each in open_ones)
        return bool(open_ones) and not is_probably_poor and {each.rule for each in open_ones} <= UNPROVEN


@dataclass(frozen=True, slots=True)
class RealResult:
    """What a candidate has done on real arms."""

    successes: int
    trials: int

    @property
    def rate(self) -> float:
        return self.successes / self.trials
