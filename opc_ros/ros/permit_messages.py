"""Conversion between permits or gate decisions and the messages that carry them."""

from __future__ import annotations

import json

from opc_interfaces.msg import GateDecision, GateFinding
from opc_interfaces.msg import Permit as PermitMsg

from opc_ros.deployment.decision import Decision, Finding, Verdict
from opc_ros.deployment.dsse import Signed, payload_type
from opc_ros.deployment.permit import Rung
from opc_ros.ros import convert

VERDICTS = {
    Verdict.FAIL: GateDecision.FAIL,
    Verdict.PASS: GateDecision.PASS,
    Verdict.INCONCLUSIVE: GateDecision.INCONCLUSIVE,
}
SPOKEN = {number: verdict for verdict, number in VERDICTS.items()}


def permit_to_msg(signed: Signed) -> PermitMsg:
    """The signed text, with its contents repeated for people to read; programs use only the signed text."""
    content = json.loads(signed.payload)["content"]
    return PermitMsg(
        permit_id=content["permit_id"],
        candidate_id=content["candidate_id"],
        robot=content["robot"],
        rung=Rung(content["rung"]).number,
        episodes=content["episodes"],
        issued=convert.stamp_from_ns(content["issued_ns"]),
        expires=convert.stamp_from_ns(content["expires_ns"]),
        key_id=signed.key_id,
        payload=signed.payload,
        signature=list(signed.signature),
    )


def permit_from_msg(msg: PermitMsg) -> Signed:
    """The signed text; the other fields are ignored."""
    return Signed(msg.payload, bytes(msg.signature), msg.key_id, payload_type("permit"))


def rung_of(msg: PermitMsg) -> Rung:
    """The rung a client asks for; an unknown number becomes the most careful rung, which no real arm serves."""
    return next((rung for rung in Rung if rung.number == msg.rung), Rung.TWIN)


def decision_to_msg(decision: Decision, request_id: str, stamp_ns: int) -> GateDecision:
    return GateDecision(
        header=convert.header(stamp_ns),
        request_id=request_id,
        candidate_id=decision.candidate_id,
        ranking_id=decision.ranking_id,
        verdict=VERDICTS[decision.verdict],
        findings=[
            GateFinding(rule=each.rule, verdict=VERDICTS[each.verdict], sentence=each.sentence)
            for each in decision.findings
        ],
        decided_by="gate",
    )


def decision_from_msg(msg: GateDecision) -> Decision:
    """The gate's decision as it was made."""
    findings = (Finding(each.rule, SPOKEN[each.verdict], each.sentence) for each in msg.findings)
    return Decision(msg.candidate_id, msg.ranking_id, tuple(findings))
