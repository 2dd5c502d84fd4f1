"""Check that an evidence file is what a scheduler exported: complete, about one request, and properly signed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opc_ros.deployment.attestation import CANDIDATE_DIGEST, EVIDENCE, PAYLOAD_TYPE
from opc_ros.deployment.audit_line import is_genuine_line
from opc_ros.deployment.checkpoint import open_checkpoint
from opc_ros.deployment.dsse import Signed, from_text, is_authentic, payload_type
from opc_ros.deployment.evidence_bundle import FORMAT, list_contents
from opc_ros.deployment.keys import TrustedKeys
from opc_ros.deployment.merkle import check_inclusion
from opc_ros.deployment.people import People
from opc_ros.deployment.robot_results import RESULT, ROBOT
from opc_ros.deployment.signed_ranking import KIND as RANKING
from opc_ros.deployment.signed_ranking import SCORER, check_ranking
from opc_ros.deployment.statement import TYPE as STATEMENT
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.ranking import Ranking


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The result of checking a bundle."""

    request_id: str
    envelopes: int
    entries: int
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


def verify_evidence(text: str, trusted: TrustedKeys, people: People) -> BundleReport:
    """Check that the bundle is complete, signed by those entitled to, and contained in the audit log."""
    bundle = parse_json(text, where="evidence", error=DeploymentError)
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        raise DeploymentError(f"evidence: expected a bundle of format {FORMAT}")
    try:
        problems = [
            *_check_contents(bundle, trusted),
            *_check_signers(bundle, trusted, people),
            *_check_entries(bundle, trusted),
            *_check_ranking(bundle, people),
        ]
        return BundleReport(
            str(bundle["request_id"]), len(bundle["envelopes"]), len(bundle["entries"]), tuple(problems)
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise DeploymentError(f"evidence: is not complete: {error!r}") from error


def _check_contents(bundle: Mapping[str, Any], trusted: TrustedKeys) -> Iterator[str]:
    """Check the scheduler's own list of contents: for which request, and about which candidate."""
    signed = _read(bundle["contents"])
    if signed is None or signed.payload_type != PAYLOAD_TYPE or not _is_by(signed, trusted):
        yield "contents: are not signed by a scheduler that is trusted here"
        return
    said = parse_json(signed.payload, where="contents", error=DeploymentError)
    if said["predicateType"] != EVIDENCE:
        yield f"contents: are of type {said['predicateType']!r}, expected {EVIDENCE}"
        return
    told = said["predicate"]
    about = (told["requestId"], said["subject"][0]["digest"][CANDIDATE_DIGEST])
    if about != (bundle["request_id"], bundle["candidate_id"]):
        yield f"contents: are about request {about[0]} and candidate {about[1][:12]}, but the file names others"
    found = list_contents(bundle["envelopes"], bundle["entries"], bundle["ranking"])
    for part, listed in found.items():
        if listed != told[part]:
            yield f"{part}: differ from what was exported: something is missing, added, renamed or changed"


def _check_signers(bundle: Mapping[str, Any], trusted: TrustedKeys, people: People) -> Iterator[str]:
    for each in bundle["envelopes"]:
        signed = _read(each["envelope"])
        if signed is None or not _is_by(signed, _rightful_keys(signed, trusted, people)):
            yield f"{each['what']}: is not signed by a key that is trusted here for it"


def _rightful_keys(signed: Signed, trusted: TrustedKeys, people: People) -> TrustedKeys:
    """The keys that may sign a document of this kind: its person's, its robot's, a scorer's or the scheduler's."""
    if signed.payload_type == STATEMENT:
        person = people.people.get(str(_open(signed).get("person")))
        return person.public_keys() if person is not None else {}
    if signed.payload_type == payload_type(RESULT):
        robot = people.people.get(str(_open(signed).get("content", {}).get("robot")))
        return robot.public_keys() if robot is not None and ROBOT in robot.roles else {}
    if signed.payload_type == payload_type(RANKING):
        return people.keys_of(SCORER)
    return trusted


def _check_entries(bundle: Mapping[str, Any], trusted: TrustedKeys) -> Iterator[str]:
    try:
        head = open_checkpoint(canonical_json(bundle["checkpoint"], is_ascii=True), trusted)
    except OpcError as error:
        yield str(error)
        return
    for entry in bundle["entries"]:
        if not check_inclusion(entry["line"].encode(), entry["index"], head.entries, entry["proof"], head.root):
            yield f"entry {entry['index'] + 1}: is not in the audit log of this checkpoint"
        elif not is_genuine_line(entry["line"].encode(), trusted):
            yield f"entry {entry['index'] + 1}: is not signed by a scheduler that is trusted here"


def _check_ranking(bundle: Mapping[str, Any], people: People) -> Iterator[str]:
    if not bundle["ranking"]:
        return
    seals = [each["envelope"] for each in bundle["envelopes"] if each["what"] == "ranking"]
    if not seals:
        yield "ranking: no scorer has sealed it"
    try:
        ranking = Ranking.from_json(canonical_json(bundle["ranking"]))
        for seal in seals:
            check_ranking(ranking, canonical_json(seal, is_ascii=True), people)
    except OpcError as error:
        yield str(error)


def _read(envelope: Any) -> Signed | None:
    try:
        return from_text(canonical_json(envelope, is_ascii=True))
    except OpcError:
        return None


def _open(signed: Signed) -> Any:
    return parse_json(signed.payload, where="evidence", error=DeploymentError)


def _is_by(signed: Signed, keys: TrustedKeys) -> bool:
    return any(is_authentic(signed, key_id, keys) for key_id in keys)
