"""Everything that led to a decision in one file: others verify it without this program, and any change is detected."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.attestation import EVIDENCE, sign_attestation
from opc_ros.deployment.audit_cosigned import check_cosigned
from opc_ros.deployment.audit_log import AuditHead, AuditLog
from opc_ros.deployment.checkpoint import sign_checkpoint
from opc_ros.deployment.dsse import payload_type, sign_payload, to_text
from opc_ros.deployment.evidence_bundle import list_contents
from opc_ros.deployment.journal import RunEpisode
from opc_ros.deployment.keys import Signer, load_signer
from opc_ros.deployment.merkle import MerkleTree, check_inclusion
from opc_ros.deployment.people import load_people
from opc_ros.deployment.robot_results import sign_result
from opc_ros.deployment.signing import load_machine_key
from opc_ros.deployment.statement import TYPE as STATEMENT
from opc_ros.deployment.statement import RequestBody
from tests.deployment.handling import make_handler
from tests.deployment.lab import make_lab, say

RefusedWith = Callable[[Callable[[Any], Any], str], None]
FOREIGN_CHECK = """
import sys

class NoOpc:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("opc_ros", "opc_interfaces", "sim_bridge"):
            raise ImportError(name)

sys.meta_path.insert(0, NoOpc())
import base64, hashlib, json
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

try:
    import opc_ros
    raise SystemExit("opc_ros can be imported")
except ImportError:
    pass
bundle = json.load(open(sys.argv[1]))
keys = [SSlibKey(key_id, "ed25519", "ed25519", {"public": each["ed25519"]}) for key_id, each in bundle["keys"].items()]
found = {}
for each in [*bundle["envelopes"], *({"what": each, "envelope": bundle[each]} for each in ("checkpoint", "contents"))]:
    envelope = Envelope.from_dict(each["envelope"])
    envelope.verify(keys, 1)
    found.setdefault(each["what"], []).append(json.loads(envelope.payload))
head = found["checkpoint"][0]["content"]
for entry in bundle["entries"]:
    node, fn, sn = hashlib.sha256(b"\\0" + entry["line"].encode()).digest(), entry["index"], head["entries"] - 1
    for sibling in map(bytes.fromhex, entry["proof"]):
        if fn & 1 or fn == sn:
            node = hashlib.sha256(b"\\1" + sibling + node).digest()
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            node = hashlib.sha256(b"\\1" + node + sibling).digest()
        fn, sn = fn >> 1, sn >> 1
    assert sn == 0 and node.hex() == head["root"], entry["index"]
verdict = found["gate_verdict"][0]
assert verdict["_type"] == "https://in-toto.io/Statement/v1"
assert verdict["subject"][0]["digest"]["opcCandidate"] == bundle["candidate_id"]
assert set(verdict) == {"_type", "subject", "predicateType", "predicate"}
print(" ".join(sorted(found)))
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A request in a lab on disk, and its evidence."""
    monkeypatch.chdir(tmp_path)
    (candidate,) = make_lab(tmp_path, {"arm1": ["reduced", "full"]}, rung_episodes=(0, 2, 2))
    handler = make_handler(tmp_path)
    filed = handler.act_on(say(tmp_path, "request", RequestBody(candidate.id))).request
    assert filed is not None
    words = ["evidence", "export", filed.id, "--output", "evidence.json", "--ranking", "ranking.json"]
    assert main(words) == 0
    assert "signed documents" in capsys.readouterr().out
    return tmp_path / "evidence.json"


@pytest.fixture
def refused_with(exported: Path, capsys: pytest.CaptureFixture[str]) -> RefusedWith:
    """Edits the genuine bundle and looks whether that is refused with these words."""
    kept = exported.read_text()

    def look(edit: Callable[[Any], Any], complaint: str) -> None:
        bundle = json.loads(kept)
        edit(bundle)
        exported.write_text(json.dumps(bundle))
        assert main(["evidence", "verify", "evidence.json"]) == 1
        assert complaint in capsys.readouterr().err

    return look


def test_securesystemslib_verifies_it_in_a_process_without_opc_ros(exported: Path) -> None:
    pytest.importorskip("securesystemslib")
    command = [sys.executable, "-I", "-c", FOREIGN_CHECK, str(exported)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["checkpoint", "contents", "gate_verdict", "ranking", "request"]


def test_it_verifies_and_a_change_anywhere_is_named(
    exported: Path, refused_with: RefusedWith, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evidence", "verify", "evidence.json"]) == 0
    assert "evidence.json: whole: request" in capsys.readouterr().out
    refused_with(
        lambda b: b["entries"][0].update(line=b["entries"][0]["line"].replace("ada", "eve")), "is not in the audit"
    )
    refused_with(lambda b: b["entries"][0].update(index=b["entries"][0]["index"] + 1), "is not in the audit log")
    refused_with(lambda b: b["ranking"].update(seed=7), "was changed after the scorer signed it")
    refused_with(
        lambda b: b["envelopes"][0]["envelope"].update(payload="e30="), "is not signed by a key that is trusted"
    )
    refused_with(lambda b: b["checkpoint"].update(payload="e30="), "forged or damaged")
    refused_with(lambda b: b["contents"].update(payload="e30="), "contents: are not signed by a scheduler")
    exported.write_text("{}")
    assert main(["evidence", "verify", "evidence.json"]) == 1
    assert "expected a bundle of format opc-evidence/1" in capsys.readouterr().err


def sign_as_robot(folder: Path, payload: str, kind: str) -> Any:
    robot = load_machine_key(folder / "arm1" / "keys", "arm1")
    assert robot is not None
    return json.loads(to_text(sign_payload(kind, payload, robot)))


def test_another_requests_evidence_a_part_of_it_and_documents_by_the_wrong_signer_are_refused(
    exported: Path, refused_with: RefusedWith
) -> None:
    """Each signature in these files is genuine, but the files are passed off as something else."""
    refused_with(lambda b: b.update(request_id="f" * 8), "contents: are about request")
    refused_with(lambda b: b.update(candidate_id="f" * 64), "contents: are about request")
    refused_with(lambda b: b["envelopes"].pop(0), "envelopes: differ from what was exported")
    refused_with(lambda b: b["entries"].pop(), "entries: differ from what was exported")
    refused_with(lambda b: b["envelopes"].append(b["envelopes"][0]), "envelopes: differ from what was exported")
    refused_with(lambda b: b["envelopes"][0].update(what="approve"), "envelopes: differ from what was exported")
    refused_with(lambda b: b.update(envelopes=[], entries=[], ranking=None), "differ from what was exported")
    refused_with(lambda b: b.update(contents=b["envelopes"][-2]["envelope"]), "contents: are of type")
    permit = sign_as_robot(exported.parent, "{}", payload_type("permit"))
    refused_with(
        lambda b: b["envelopes"].append({"what": "permit", "envelope": permit}), "permit: is not signed by a key"
    )
    word = sign_as_robot(exported.parent, json.dumps({"person": "ada"}), STATEMENT)
    refused_with(
        lambda b: b["envelopes"].append({"what": "approve", "envelope": word}), "approve: is not signed by a key"
    )


def test_nothing_is_signed_that_somebody_has_written_into_the_audit_log(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who can write the file, but has no key, adds that the gate let the request pass."""
    request_id = json.loads(exported.read_text())["request_id"]
    log = exported.parent / "deployment" / "audit.jsonl"
    AuditLog(log).append("admitted", {"request_id": request_id, "reasons": ["passed"]}, 1)
    assert main(["evidence", "export", request_id, "--output", "new.json", "--ranking", "ranking.json"]) == 1
    assert "is not signed by a trusted key; no evidence is exported" in capsys.readouterr().err
    assert not Path("new.json").exists()


def test_an_edited_tree_beside_the_log_gets_no_signature(exported: Path) -> None:
    request_id = json.loads(exported.read_text())["request_id"]
    tree = exported.parent / "deployment" / "audit.jsonl.tree"
    tree.write_bytes(bytes(len(tree.read_bytes())))
    assert main(["evidence", "export", request_id, "--output", "new.json", "--ranking", "ranking.json"]) == 0
    assert main(["evidence", "verify", "new.json"]) == 0


def test_a_line_that_the_scheduler_never_signed_is_no_evidence_even_below_its_signed_root(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an earlier version could be made to sign: everything is consistent except the line's own signature."""
    bundle = json.loads(exported.read_text())
    signer = load_signer(exported.parent / "deployment" / "keys")
    log = exported.parent / "forged.jsonl"
    AuditLog(log).append("admitted", {"request_id": bundle["request_id"]}, 1)
    line, tree = log.read_text().strip(), MerkleTree(log)
    entries = [{"line": line, "index": 0, "proof": list(tree.prove(0))}]
    contents = {"requestId": bundle["request_id"], **list_contents(bundle["envelopes"], entries, bundle["ranking"])}
    bundle["contents"] = json.loads(sign_attestation(EVIDENCE, "c0", bundle["candidate_id"], contents, signer))
    bundle |= {"entries": entries, "checkpoint": json.loads(sign_checkpoint(tree, signer, 1))}
    exported.write_text(json.dumps(bundle))
    assert main(["evidence", "verify", "evidence.json"]) == 1
    assert capsys.readouterr().err == "entry 1: is not signed by a scheduler that is trusted here\n"


def test_an_unknown_request_is_one_line(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "export", "nobody"]) == 1
    assert "request 'nobody': no such request" in capsys.readouterr().err


def test_every_line_of_a_growing_log_has_a_proof(tmp_path: Path) -> None:
    """The root of three lines worked by hand: node(node(a, b), c)."""
    import hashlib

    path = tmp_path / "log.jsonl"
    leaf = lambda line: hashlib.sha256(b"\0" + line).digest()  # noqa: E731
    node = lambda left, right: hashlib.sha256(b"\1" + left + right).digest()  # noqa: E731
    lines: list[bytes] = []
    for number in range(1, 20):
        lines.append(b"line %d" % number)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        tree = MerkleTree(path)
        for index, line in enumerate(lines):
            proof = tree.prove(index)
            assert check_inclusion(line, index, number, proof, tree.root())
            assert not check_inclusion(line + b"!", index, number, proof, tree.root())
        if number == 3:
            a, b, c = map(leaf, lines)
            assert tree.root() == node(node(a, b), c).hex()
    assert MerkleTree(path, is_rebuilt=True).root() == tree.root()


def cosign(robot: Signer, witness: AuditHead) -> dict[str, Any]:
    episodes = [RunEpisode(0, "l1-000", "success", 0)]
    return json.loads(sign_result("arm1", "l1", 1, "", episodes, robot, 1, witness))  # type: ignore[no-any-return]


def test_a_log_rewritten_with_the_schedulers_key_contradicts_what_a_robot_signed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 2))
    keys = tmp_path / "deployment" / "keys"
    robot = load_machine_key(tmp_path / "arm1" / "keys", "arm1")
    assert robot is not None
    for name, person in (("honest", "ada"), ("rewritten", "eve")):
        path = tmp_path / "deployment" / f"{name}.jsonl"
        log = AuditLog(path, load_signer(keys))
        log.append("override", {"person": person}, 1)
        if name == "honest":
            seen = log.head()
        log.append("robot_result", {"robot": "arm1", "lease_id": "l1", "result": cosign(robot, seen)}, 2)
        status = main(["audit", "verify", str(path)])
        counts, problems = check_cosigned(path, load_people(keys))
        if name == "honest":
            assert (status, counts, problems) == (0, {"arm1": 1}, [])
            assert "robot arm1 has cosigned its head 1 times" in capsys.readouterr().out
        else:
            assert status == 1
            assert problems == ["entry 2: robot arm1 signed another entry 1: the log was rewritten"]
