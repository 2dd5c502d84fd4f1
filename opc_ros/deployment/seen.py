"""What an approver was shown of the gate's findings, and which of them have become worse since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opc_ros.deployment.decision import Finding, Verdict

_BADNESS = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)


@dataclass(frozen=True, slots=True)
class Seen:
    """The rules that had not passed when somebody decided on a request, each with its verdict."""

    request_id: str
    findings: dict[str, Verdict]  # by rule; where a rule has several findings, the worst

    @classmethod
    def of(cls, request_id: str, findings: Iterable[Finding]) -> Seen:
        worst: dict[str, Verdict] = {}
        for finding in findings:
            if finding.verdict is not Verdict.PASS and _is_worse(finding.verdict, worst.get(finding.rule)):
                worst[finding.rule] = finding.verdict
        return cls(request_id, worst)

    def find_worse(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Findings that are now worse than what was shown; a rule that was not shown had passed."""
        return tuple(each for each in findings if _is_worse(each.verdict, self.findings.get(each.rule)))

    def verdict_of(self, rule: str) -> Verdict:
        return self.findings.get(rule, Verdict.PASS)


def _is_worse(verdict: Verdict, than: Verdict | None) -> bool:
    return _BADNESS.index(verdict) > _BADNESS.index(than or Verdict.PASS)
