"""Everything that led to a decision in one file, which others verify without this program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opc_ros.deployment.attestation import GATE_VERDICT, RACE_RESULT, sign_attestation
from opc_ros.deployment.checkpoint import open_checkpoint, sign_checkpoint
from opc_ros.deployment.dsse import from_text, is_authentic
from opc_ros.deployment.keys import Signer, TrustedKeys, load_trusted_keys
from opc_ros.deployment.merkle import MerkleTree, check_inclusion
from opc_ros.deployment.people import People, load_people
from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, check_ranking
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.ranking import Ranking

FORMAT = "opc-evidence/1"
_ENDS = ("champion", "no_champion", "finished", "aborted", "champion_withdrawn")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the audit log: its bytes, where it stands, and what it says."""

    text: str
    index: int
    kind: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BundleReport:
    """What a check of a bundle found."""

    request_id: str
    envelopes: int
    entries: int
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


def export_evidence(
    queue: QueueReader, log: Path, request_id: str, ranking: Path, keys: Path, signer: Signer, now_ns: int
) -> str:
    """One JSON document about a request; `ranking` is the folder of the ranking that the gate went by."""
    request = queue.request(request_id)
    tree = MerkleTree(log)
    permits = {
        str(row["id"]): str(row["permit"])
        for row in queue.rows("SELECT id, permit FROM leases WHERE request_id = ? ORDER BY seq", request_id)
    }
    lines = [line for line in _read_lines(log, tree.leaves) if _is_about(line, request, set(permits))]
    envelopes = [_named(line.kind, line.body["statement"]) for line in lines if "statement" in line.body]
    envelopes += [_named("permit", json.loads(permit)) for permit in permits.values()]
    envelopes += [_named("robot_result", line.body["result"]) for line in lines if line.kind == "robot_result"]
    envelopes += [_named(name, json.loads(text)) for name, text in _attest(request, lines, signer)]
    document, seal = _read_ranking(ranking, lines)
    if seal is not None:
        envelopes.append(_named("ranking", seal))
    bundle = {
        "format": FORMAT,
        "request_id": request_id,
        "candidate_id": request.candidate_id,
        "exported_ns": now_ns,
        "keys": _list_keys(load_trusted_keys(keys), load_people(keys)),
        "envelopes": envelopes,
        "ranking": document,
        "checkpoint": json.loads(sign_checkpoint(tree, signer, now_ns)),
        "entries": [{"line": line.text, "index": line.index, "proof": tree.prove(line.index)} for line in lines],
    }
    return canonical_json(bundle)


def verify_evidence(text: str, trusted: TrustedKeys, people: People) -> BundleReport:
    """Whether everything in a bundle was signed by keys that the reader trusts, and lies in the audit log."""
    bundle = parse_json(text, where="evidence", error=DeploymentError)
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        raise DeploymentError(f"evidence: expected a bundle of format {FORMAT}")
    try:
        known = {**trusted, **{k: v for one in people.people.values() for k, v in one.public_keys().items()}}
        problems = [
            f"{each['what']}: is not signed by a key that is trusted here"
            for each in bundle["envelopes"]
            if not _is_signed(each["envelope"], known)
        ]
        problems += _check_entries(bundle, trusted)
        problems += _check_ranking(bundle, people)
        return BundleReport(
            str(bundle["request_id"]), len(bundle["envelopes"]), len(bundle["entries"]), tuple(problems)
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DeploymentError(f"evidence: is not whole: {error!r}") from error


def _check_entries(bundle: Mapping[str, Any], trusted: TrustedKeys) -> Iterator[str]:
    try:
        head = open_checkpoint(canonical_json(bundle["checkpoint"], is_ascii=True), trusted)
    except OpcError as error:
        yield str(error)
        return
    for entry in bundle["entries"]:
        if not check_inclusion(entry["line"].encode(), entry["index"], head.entries, entry["proof"], head.root):
            yield f"entry {entry['index'] + 1}: is not in the audit log that the checkpoint is about"


def _check_ranking(bundle: Mapping[str, Any], people: People) -> Iterator[str]:
    seals = [each["envelope"] for each in bundle["envelopes"] if each["what"] == "ranking"]
    if not bundle["ranking"]:
        return
    try:
        ranking = Ranking.from_json(canonical_json(bundle["ranking"]))
        for seal in seals:
            check_ranking(ranking, canonical_json(seal, is_ascii=True), people)
    except OpcError as error:
        yield str(error)


def _is_signed(envelope: Any, keys: TrustedKeys) -> bool:
    try:
        signed = from_text(canonical_json(envelope, is_ascii=True))
    except OpcError:
        return False
    return any(is_authentic(signed, key_id, keys) for key_id in keys)


def _attest(request: Request, lines: list[Line], signer: Signer) -> Iterator[tuple[str, str]]:
    """The gate's last word and what came of it, each with the line of the log that says so."""
    verdicts = [line for line in lines if line.kind in ("request", "gate_closed", "admitted")]
    for name, kind, found in (
        ("gate_verdict", GATE_VERDICT, verdicts[-1:]),
        ("race_result", RACE_RESULT, [line for line in lines if line.kind in _ENDS][-1:]),
    ):
        for line in found:
            said = {key: value for key, value in line.body.items() if key not in ("statement", "identity", "change")}
            predicate = {"event": line.kind, "entry": line.index + 1, "requestId": request.id} | said
            yield name, sign_attestation(kind, request.name, request.candidate_id, predicate, signer)


def _is_about(line: Line, request: Request, leases: set[str]) -> bool:
    body = line.body
    if request.id == body.get("request_id") or body.get("lease_id") in leases:
        return True
    if line.kind == "episode":
        return str(body.get("episode_id", "")).rpartition("-")[0] in leases
    return line.kind in ("champion", "champion_withdrawn", "no_champion") and (
        body.get("candidate_id") == request.candidate_id
    )


def _read_lines(log: Path, count: int) -> Iterator[Line]:
    with log.open("rb") as file:
        for index, line in enumerate(file):
            if index >= count:
                return
            document = parse_json(line, where=str(log), error=DeploymentError)
            yield Line(line.rstrip(b"\n").decode(), index, document["kind"], document["body"])


def _read_ranking(folder: Path, lines: list[Line]) -> tuple[Any, Any]:
    """The ranking that the gate named in its last word, with the scorer's seal; nothing where it is kept no more."""
    asked = [str(line.body["ranking_id"]) for line in lines if line.body.get("ranking_id")]
    for place in (folder, *(folder.parent.parent / ranking_id[:16] for ranking_id in asked[-1:])):
        try:
            ranking = Ranking.from_json((place / "ranking.json").read_text(encoding="utf-8"))
            if asked and ranking.ranking_id == asked[-1]:
                seal = (place / ENVELOPE_NAME).read_text(encoding="utf-8")
                return json.loads(ranking.to_json()), json.loads(seal)
        except (OSError, ValueError, OpcError):
            continue
    return None, None


def _list_keys(trusted: TrustedKeys, people: People) -> dict[str, dict[str, Any]]:
    """For readers: whose key is whose. What they trust they decide by a key that reached them on another way."""
    listed: dict[str, tuple[Any, str, list[str]]] = {key_id: (key, "scheduler", []) for key_id, key in trusted.items()}
    for name, person in people.people.items():
        listed |= {key_id: (key, name, list(person.roles)) for key_id, key in person.public_keys().items()}
    return {
        key_id: {"ed25519": key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex(), "owner": owner, "roles": roles}
        for key_id, (key, owner, roles) in listed.items()
    }


def _named(what: str, envelope: Any) -> dict[str, Any]:
    return {"what": what, "envelope": envelope}
