"""The robot's own check of a permit: it trusts signatures, its own files and its clock, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import TrustedKeys
from opc_ros.deployment.line_rate import LONGEST, LineRate
from opc_ros.deployment.permit import Permit, Rung, open_permit, open_revocations
from opc_ros.errors import DeploymentError, PermitOutdated, PermitRefused, RobotClockWrong

MOST_REFUSALS_A_MINUTE = 120  # refusals that are logged, because anybody may send a permit
CLOCK_SKEW_NS = 5_000_000_000  # between two well-kept machines, including steps back by a time service


@dataclass(frozen=True, slots=True)
class EpisodeSlot:
    """One episode's place in a permit's budget."""

    slot: int
    episode_id: str


class PermitVerifier:
    """Decides whether a permit allows motion on one robot; refusals are written to the robot's audit log."""

    def __init__(
        self,
        robot: str,
        rungs: frozenset[Rung],
        load_keys: Callable[[], TrustedKeys],
        journal: RobotJournal,
        audit_log: AuditLog,
        now: Callable[[], int],
        session: str = "",
    ) -> None:
        """This robot may serve `rungs`; keys are loaded for every check, so that deleting one takes effect at once."""
        self._robot = robot
        self._rungs = rungs
        self._load_keys = load_keys
        self._journal = journal
        self._audit_log = audit_log
        self._now = now
        self._session = session
        self._refusals = LineRate(MOST_REFUSALS_A_MINUTE, now)

    def check(self, signed: Signed | None, candidate_id: str, rung: Rung, lease_id: str | None = None) -> Permit:
        """The permit, if it allows this digest on this robot and rung now, and under this lease if one is given."""
        try:
            if signed is None or not signed.payload:
                raise PermitRefused(f"robot {self._robot}: no permit, no motion; ask with `opc deploy request`")
            permit = open_permit(signed, self._load_keys())
            self._check_meant_for(permit, candidate_id, rung)
            if lease_id not in (None, permit.lease_id):
                raise PermitRefused(f"permit {permit.permit_id}: is for another lease")
            self._check_witness(permit)
            self._check_moment(permit)
        except DeploymentError as error:
            self._record_refusal(str(error), signed)
            if isinstance(error, PermitOutdated | RobotClockWrong):
                raise
            raise PermitRefused(str(error)) from error
        self._journal.remember_audit_head(permit.audit_head)
        return permit

    def check_moment(self, permit: Permit) -> None:
        """Check that a permit is still valid by clock, expiry, revocation and budget; called before every episode."""
        try:
            self._check_moment(permit)
        except PermitRefused as error:
            self._record_refusal(str(error), None)
            raise

    def begin_episode(self, permit: Permit) -> EpisodeSlot:
        """Spend one episode of the budget before the candidate acts; it stays spent whatever happens."""
        self.check_moment(permit)
        pattern = f"{permit.lease_id}-{{slot:03d}}"
        slot = self._journal.spend(permit.permit_id, permit.lease_id, pattern, permit.episodes, self._now())
        if slot is None:
            reason = f"permit {permit.permit_id}: all {permit.episodes} episodes are spent"
            self._record_refusal(reason, None)
            raise PermitRefused(reason)
        return EpisodeSlot(slot, pattern.format(slot=slot))

    def end_episode(self, permit: Permit, slot: EpisodeSlot, outcome: str, safety_events: int) -> None:
        self._journal.finish(permit.permit_id, slot.slot, outcome, safety_events)
        body = {"permit_id": permit.permit_id, "episode_id": slot.episode_id, "outcome": outcome}
        self._audit_log.append("episode", body | {"safety_events": safety_events}, self._now())

    def why_clock_is_wrong(self) -> str:
        """Why no permit can be checked at this time; empty while the clock is not before what the journal has seen."""
        behind_ns = self._journal.latest_ns - self._now()
        if behind_ns <= CLOCK_SKEW_NS:
            return ""
        return (
            f"this robot's clock was set back by {_seconds(behind_ns)}; correct it, or accept it with "
            "`opc deploy accept-clock`"
        )

    def why_to_stop(self, permit: Permit) -> str | None:
        """Called before every step: an episode that has begun may outlast its permit, but not its revocation."""
        if self._journal.is_revoked(permit.permit_id):
            return f"permit {permit.permit_id} was revoked"
        return None

    def episodes_left(self, permit: Permit) -> int:
        return max(0, permit.episodes - self._journal.spent(permit.permit_id))

    def note_refusal(self, reason: str) -> None:
        """Log a refusal that is not about the permit, such as files that cannot be loaded."""
        self._record_refusal(reason, None)

    def note_repeat(self, lease_id: str) -> None:
        """Log that a finished lease was sent again: it is answered from the journal, and nothing moves."""
        if self._refusals.allows():
            self._audit_log.append("asked_again", {"robot": self._robot, "lease_id": lease_id}, self._now())

    def revoke(self, permit_id: str) -> None:
        """Revoke at once and permanently, whoever asks: stopping needs no signature."""
        self._journal.revoke([permit_id])

    def accept_revocations(self, signed: Signed) -> bool:
        """Take a signed list; returns False if a newer one is already known."""
        revocations = open_revocations(signed, self._load_keys())
        self._journal.revoke(revocations.permit_ids)
        if revocations.serial <= self._journal.revocation_serial:
            return False
        self._journal.revoke((), revocations.serial)
        return True

    def _check_meant_for(self, permit: Permit, candidate_id: str, rung: Rung) -> None:
        if permit.robot != self._robot:
            raise PermitRefused(f"permit {permit.permit_id}: is for robot {permit.robot}, this is {self._robot}")
        if permit.rung is not rung or rung not in self._rungs:
            served = ", ".join(each for each in Rung if each in self._rungs)
            raise PermitRefused(
                f"permit {permit.permit_id}: is for rung {permit.rung}, asked for {rung}; this robot serves {served}"
            )
        if permit.candidate_id != candidate_id:
            raise PermitRefused(
                f"permit {permit.permit_id}: is for candidate {permit.candidate_id[:12]}, "
                f"the files have digest {candidate_id[:12]}: they changed, or belong to another"
            )

    def _check_witness(self, permit: Permit) -> None:
        """Refuse a permit from a scheduler whose audit log was put back and knows less than this robot has seen."""
        witness, head = self._journal.audit_witness(), permit.audit_head
        if head.entries < witness.entries or (head.entries == witness.entries and head.hash != witness.hash):
            raise PermitRefused(
                f"permit {permit.permit_id}: knows {head.entries} entries of the audit log, this robot has seen "
                f"{witness.entries}: it was signed before something this robot has heard since, or an old audit log "
                "was put back; if new permits are refused too, see `opc audit verify --witness`"
            )
        if permit.session != self._session:
            raise PermitOutdated(
                f"permit {permit.permit_id}: is for another start of this robot; a new one covers the rest"
            )

    def _check_moment(self, permit: Permit) -> None:
        name, now_ns = permit.permit_id, self._now()
        self._journal.begin_anew_if_unused(now_ns)
        if reason := self.why_clock_is_wrong():
            raise RobotClockWrong(f"permit {name}: {reason}")
        self._journal.see_moment(now_ns)
        if permit.issued_ns > now_ns + CLOCK_SKEW_NS:
            ahead = _seconds(permit.issued_ns - now_ns)
            raise RobotClockWrong(f"permit {name}: was issued {ahead} from now: set this robot's clock")
        if permit.issued_ns < self._journal.begun_ns - CLOCK_SKEW_NS:
            raise PermitRefused(f"permit {name}: is older than this robot's journal, so it may be spent; ask anew")
        if now_ns >= permit.expires_ns:
            raise PermitRefused(f"permit {name}: expired {_seconds(now_ns - permit.expires_ns)} ago")
        if self._journal.is_revoked(name):
            raise PermitRefused(f"permit {name}: was revoked")
        if self.episodes_left(permit) == 0:
            raise PermitRefused(f"permit {name}: all {permit.episodes} episodes are spent")

    def _record_refusal(self, reason: str, signed: Signed | None) -> None:
        if not self._refusals.allows():
            return
        body = {"robot": self._robot, "reason": reason[:LONGEST]}
        if unwritten := self._refusals.take_unwritten():
            body["not_written_before"] = str(unwritten)
        if signed is not None:
            body["payload_sha256"] = hashlib.sha256(signed.payload.encode()).hexdigest()
        self._audit_log.append("refused", body, self._now())


def _seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:.0f} s"
