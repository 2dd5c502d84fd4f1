"""Gate verdicts and race results as in-toto statements, so that any supply-chain tool can read who decided what."""

from __future__ import annotations

from typing import Any

from opc_ros.deployment.dsse import sign_payload, to_text
from opc_ros.deployment.keys import TextSigner
from opc_ros.documents import canonical_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
GATE_VERDICT = "urn:opc-ros:gate-verdict:v1"
RACE_RESULT = "urn:opc-ros:race-result:v1"
EVIDENCE = "urn:opc-ros:evidence:v1"
CANDIDATE_DIGEST = "opcCandidate"  # sha256 over the digests of manifest and artifact; see policies.candidate


def sign_attestation(
    predicate_type: str, name: str, candidate_id: str, predicate: dict[str, Any], signer: TextSigner
) -> str:
    """A signed envelope that makes a claim about one candidate."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {CANDIDATE_DIGEST: candidate_id}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return to_text(sign_payload(PAYLOAD_TYPE, canonical_json(statement, is_ascii=True), signer))
