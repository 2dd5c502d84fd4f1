"""Everything that led to a decision in one file, which others can verify without this program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opc_ros.deployment.attestation import EVIDENCE, GATE_VERDICT, RACE_RESULT, sign_attestation
from opc_ros.deployment.audit_check import check_audit_log, read_checkpoint
from opc_ros.deployment.audit_line import is_genuine_line
from opc_ros.deployment.checkpoint import sign_checkpoint
from opc_ros.deployment.keys import Signer, TrustedKeys, load_trusted_keys
from opc_ros.deployment.merkle import MerkleTree
from opc_ros.deployment.people import People, load_people
from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.deployment.queue_rows import Request
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.ranking import Ranking

FORMAT = "opc-evidence/1"
_ENDS = ("champion", "no_champion", "finished", "aborted", "champion_withdrawn")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the audit log: its text, its position and its content."""

    text: str
    index: int
    kind: str
    body: dict[str, Any]


def export_evidence(
    queue: QueueReader, log: Path, request_id: str, ranking: Path, keys: Path, signer: Signer, now_ns: int
) -> str:
    """One JSON document about a request; `ranking` is the folder of the ranking that the gate used."""
    request, trusted = queue.request(request_id), load_trusted_keys(keys)
    _refuse_damaged(log, trusted)
    # The cached tree beside the log is only there for speed; nothing unverified gets a signature.
    tree = MerkleTree(log, is_rebuilt=True)
    permits = {
        str(row["id"]): str(row["permit"])
        for row in queue.rows("SELECT id, permit FROM leases WHERE request_id = ? ORDER BY seq", request_id)
    }
    lines = [line for line in _read_lines(log, tree.leaves) if _is_about(line, request, set(permits))]
    for line in lines:
        if not is_genuine_line(line.text.encode(), trusted):
            raise DeploymentError(
                f"{log}: entry {line.index + 1}: is not signed by a trusted key; see `opc audit verify`"
            )
    envelopes = [_named(line.kind, line.body["statement"]) for line in lines if "statement" in line.body]
    envelopes += [_named("permit", json.loads(permit)) for permit in permits.values()]
    envelopes += [_named("robot_result", line.body["result"]) for line in lines if line.kind == "robot_result"]
    envelopes += [_named(name, json.loads(text)) for name, text in _attest(request, lines, signer)]
    document, seal = _read_ranking(ranking, lines)
    if seal is not None:
        envelopes.append(_named("ranking", seal))
    entries = [{"line": line.text, "index": line.index, "proof": tree.prove(line.index)} for line in lines]
    contents = {"requestId": request_id, **list_contents(envelopes, entries, document)}
    signed = sign_attestation(EVIDENCE, request.name, request.candidate_id, contents, signer)
    bundle = {
        "format": FORMAT,
        "request_id": request_id,
        "candidate_id": request.candidate_id,
        "exported_ns": now_ns,
        "keys": _list_keys(trusted, load_people(keys)),
        "contents": json.loads(signed),
        "envelopes": envelopes,
        "ranking": document,
        "checkpoint": json.loads(sign_checkpoint(tree, signer, now_ns)),
        "entries": entries,
    }
    return canonical_json(bundle)


def _refuse_damaged(log: Path, trusted: TrustedKeys) -> None:
    """Check the log first: the scheduler's signature on the evidence vouches for all of it."""
    report = check_audit_log(log, trusted, since=read_checkpoint(log, trusted))
    if not report.is_whole:
        raise DeploymentError(f"{log}: {report.problems[0]}; no evidence is exported until it is restored from a copy")


def list_contents(
    envelopes: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]], ranking: Any
) -> dict[str, Any]:
    """What the scheduler signs about a bundle: everything in it, so that nothing can be left out, added or renamed."""

    def digest(document: Any) -> str:
        return hashlib.sha256(canonical_json(document, is_ascii=True).encode()).hexdigest()

    return {
        "envelopes": [[str(each["what"]), digest(each["envelope"])] for each in envelopes],
        "entries": [[each["index"], hashlib.sha256(each["line"].encode()).hexdigest()] for each in entries],
        "ranking": digest(ranking) if ranking else "",
    }


def _attest(request: Request, lines: list[Line], signer: Signer) -> Iterator[tuple[str, str]]:
    """The gate's last verdict and its outcome, each with the line of the log that records it."""
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
    """The ranking named in the gate's last verdict, with the scorer's seal; nothing if it is no longer kept."""
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
    """The owner of each key, as information: readers must base their trust on a key obtained independently."""
    listed: dict[str, tuple[Any, str, list[str]]] = {key_id: (key, "scheduler", []) for key_id, key in trusted.items()}
    for name, person in people.people.items():
        listed |= {key_id: (key, name, list(person.roles)) for key_id, key in person.public_keys().items()}
    return {
        key_id: {"ed25519": key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex(), "owner": owner, "roles": roles}
        for key_id, (key, owner, roles) in listed.items()
    }


def _named(what: str, envelope: Any) -> dict[str, Any]:
    return {"what": what, "envelope": envelope}
