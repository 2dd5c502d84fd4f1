"""opc keys, gate, deploy and audit log as a person uses them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opc_ros.cli.main import main
from opc_ros.deployment.dsse import from_text, to_text
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.gate import DAY_NS
from opc_ros.deployment.keys import Signer, key_id_of
from opc_ros.deployment.permit import sign_document
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, sign_ranking
from opc_ros.deployment.signing import load_machine_key, make_person_key
from opc_ros.policies.candidate import write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.scoring.search_look import SearchLook
from opc_ros.store import open_store
from tests.deployment.lab import shift
from tests.store.grasps import FAILURE, SUCCESS, make_episode

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with keys, a store, two candidates, a ranking of them and lenient rules."""
    monkeypatch.chdir(tmp_path)
    now_ns = time.time_ns()
    with open_store(tmp_path / "store", create=True) as store:
        for number in range(4):
            episode = make_episode(f"e{number}", label=SUCCESS if number < 2 else FAILURE, seed=number)
            store.append(shift(episode, now_ns - DAY_NS))
        snapshot = store.take_snapshot()
    ids = {}
    for name in ("good", "poor"):
        manifest = CandidateManifest(
            format_version=FORMAT_VERSION,
            name=name,
            artifact="weights.safetensors",
            format="safetensors",
            input=InputSpec(48, 48),
            architecture="whole_image",
        )
        ids[name] = write_candidate(tmp_path / "candidates" / name, manifest, name.encode()).id
    ranking = Ranking(
        metric="soft_opc",
        prior=1.0,
        confidence=0.95,
        top_k=1,
        seed=0,
        q_digest="0" * 64,
        scope="registry",
        left_out=(),
        resamples=100,
        snapshot_id=snapshot.id,
        episodes=4,
        successes=2,
        candidates=(
            RankedCandidate(ids["good"], "good", 0.3, (0.2, 0.4), 1, (1, 1), 0.97, search=SearchLook(is_standard=True)),
            RankedCandidate(ids["poor"], "poor", 0.1, (0.0, 0.2), 2, (2, 2), 0.03, search=SearchLook(is_standard=True)),
        ),
        beats=((0.5, 0.97), (0.03, 0.5)),
    )
    (tmp_path / "scores" / "published").mkdir(parents=True)
    (tmp_path / "scores" / "published" / "ranking.json").write_text(ranking.to_json() + "\n")
    (tmp_path / "config").mkdir()
    gate = (CONFIG / "gate.yaml").read_text().replace("candidates: 3", "candidates: 2")
    gate = gate.replace("resamples: 2000", "resamples: 100").replace("soft_opc_over_spread", "soft_opc")
    history = "candidate,successes,episodes\n" + f"{ids['good']},90,100\n{ids['poor']},5,100\n"
    (tmp_path / "deployment").mkdir()
    (tmp_path / "deployment" / "history.csv").write_text(history)
    for line in ("episodes: 500", "successes: 100", "failures: 100"):
        gate = gate.replace(line, line.split(":")[0] + ": 2")
    (tmp_path / "config" / "gate.yaml").write_text(gate.replace("[no_champion]", "[]"))
    (tmp_path / "config" / "scheduler.yaml").write_text((CONFIG / "scheduler.yaml").read_text())
    assert main(["keys", "create", "deployment/keys"]) == 0
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    make_person_key(tmp_path / "deployment" / "keys", "ada")
    assert main(["deploy", "sign-history"]) == 0
    signer = load_machine_key(tmp_path / "deployment" / "keys", "scorer")
    assert signer is not None
    envelope = tmp_path / "scores" / "published" / ENVELOPE_NAME
    envelope.write_text(sign_ranking(ranking, signer, time.time_ns()))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_results_from_before_count_only_as_an_approver_signed_them(
    lab: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Somebody who can write the file, but has no key, makes the poor candidate look good."""
    history = lab / "deployment" / "history.csv"
    seal, honest = lab / "deployment" / "history.csv.dsse.json", history.read_text()
    history.write_text(honest.replace(",5,100", ",95,100"))
    code, out, _ = run(capsys, "gate", "explain", "poor")
    assert (code, "history.csv: was changed after it was signed" in out) == (1, True)
    signed = seal.read_text()
    seal.unlink()
    assert "nobody has signed these results" in run(capsys, "gate", "explain", "good")[1]
    stranger = Ed25519PrivateKey.generate()
    content = json.loads(base64.b64decode(json.loads(signed)["payload"]))["content"]
    content["sha256"] = hashlib.sha256(history.read_bytes()).hexdigest()
    seal.write_text(to_text(sign_document("history", content, Signer(key_id_of(stranger.public_key()), stranger))))
    assert "is not signed by an approver who is known here" in run(capsys, "gate", "explain", "good")[1]
    history.write_text(honest)
    seal.write_text(signed)
    assert run(capsys, "gate", "explain", "good")[0] == 0


def test_gate_explains_every_rule(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "gate", "explain", "good")
    assert code == 0
    assert "pass" in out.splitlines()[0]
    assert "within 10 points of the best of 2 with probability 1.00" in out
    code, out, _ = run(capsys, "gate", "explain", "poor", "--json")
    assert code == 1
    document = json.loads(out)
    assert document["verdict"] == "fail"
    assert [finding["rule"] for finding in document["findings"] if finding["verdict"] == "fail"] == ["within", "floor"]


def test_gate_says_what_is_missing(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "gate", "explain", "nobody")
    assert code == 1
    assert err.count("\n") == 1
    assert "neither a folder nor a name or id" in err
    code, out, _ = run(capsys, "gate", "explain", "good", "--store", "elsewhere")
    assert code == 1
    assert "elsewhere" in out


def test_a_candidate_changed_after_scoring_is_not_the_one_that_was_ranked(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab / "candidates" / "good" / "weights.safetensors").write_bytes(b"other weights")
    code, out, _ = run(capsys, "deploy", "request", "good")
    assert code == 1
    assert "refused: the gate says fail" in out
    assert "is not among the 2 ranked: score it first" in out
    code, out, _ = run(capsys, "audit", "show", "--kind", "request", "--json")
    assert json.loads(out)["body"]["state"] == "refused"


def test_a_ranking_from_another_snapshot_is_refused_and_reported(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(lab / "store") as store:
        store.append(shift(make_episode("e9", seed=9), time.time_ns() - DAY_NS))
        store.take_snapshot(tag="validation")
    gate = lab / "config" / "gate.yaml"
    gate.write_text(gate.read_text().replace('tag: ""', "tag: validation"))
    code, out, _ = run(capsys, "deploy", "request", "good")
    assert code == 1
    assert "with 3 in 5: rank again" in out
    code, out, _ = run(capsys, "audit", "show", "--kind", "request")
    assert "rank again" in out


def test_a_request_goes_from_asking_to_the_audit_log(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "deploy", "request", "good", "--json")
    assert code == 0
    request = json.loads(out)
    assert request["state"] == "queued"
    code, out, _ = run(capsys, "deploy", "status", "--json")
    assert json.loads(out)["requests"][0]["name"] == "good"
    code, out, _ = run(capsys, "deploy", "status")
    assert "queued" in out
    code, _, err = run(capsys, "deploy", "approve", request["request_id"])
    assert code == 1
    assert "is queued; approve is for waiting ones" in err
    assert run(capsys, "deploy", "halt", "--reason", "smoke")[0] == 0
    assert run(capsys, "deploy", "resume")[0] == 0
    assert run(capsys, "deploy", "reject", request["request_id"], "--reason", "changed my mind")[0] == 0
    code, out, _ = run(capsys, "audit", "show")
    # An approver has seen what the gate finds now, so the basis of the approval is recorded.
    counted = ["ranking_counts", "history_counts"]
    assert [line.split()[3] for line in out.splitlines()] == ["request", *counted, "halt", "resume", "reject"]
    code, out, _ = run(capsys, "audit", "verify")
    assert code == 0
    assert "whole, 6 entries" in out


def test_an_approval_prints_what_is_open_and_signs_it(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = lab / "config" / "gate.yaml"
    gate.write_text(gate.read_text().replace("approval: []", "approval: [every_request]"))
    request = json.loads(run(capsys, "deploy", "request", "good", "--json")[1])
    assert request["state"] == "waiting"
    code, out, err = run(capsys, "deploy", "approve", request["request_id"], "--ranking", "nowhere.json")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "nowhere.json" in err
    assert "give --ranking, --store and --gate" in err
    code, out, _ = run(capsys, "deploy", "approve", request["request_id"])
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[:-1]] == [["?", "approval"]]
    assert out.splitlines()[-1] == f"request {request['request_id']} is queued: approve by ada"
    entry = json.loads(run(capsys, "audit", "show", "--kind", "approve", "--json")[1])
    said = json.loads(from_text(json.dumps(entry["body"]["statement"])).payload)
    assert said["body"]["seen"] == {"findings": {"approval": "inconclusive"}, "request_id": request["request_id"]}


def test_status_names_champion_and_robots_and_needs_neither_a_key_nor_write_access(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "deploy", "request", "good", "--json")
    request_id = json.loads(out)["request_id"]
    with DeploymentFolder(lab / "deployment").open() as (queue, _), queue.change("test", 1) as _:
        good = queue.request(request_id).candidate_id
        lease = (1, "lease", request_id, good, "arm1", "full", 10, "running", "permit", "", 1, 2)
        queue.execute(f"INSERT INTO leases VALUES ({', '.join('?' * 12)})", *lease)
        queue.execute("INSERT INTO robots (name, state) VALUES ('arm1', 'ready')")
        queue.execute("INSERT INTO champions (candidate_id, score, at_ns) VALUES (?, 0.3, 1)", good)
        for number in range(4):
            result = (f"e{number}", "lease", request_id, good, "arm1", "full", number > 0, 0, number, "committed")
            queue.execute(f"INSERT INTO results VALUES ({', '.join('?' * 10)})", *result)
    (lab / "deployment" / "keys" / "scheduler.private.pem").unlink()
    before = {path: path.stat().st_mtime_ns for path in (lab / "deployment").rglob("*")}
    code, out, _ = run(capsys, "deploy", "status")
    assert code == 0
    lines = [re.split(r"  +", line) for line in out.splitlines() if line]
    assert lines[0] == ["champion", "good"]
    assert lines[1] == ["robot", "state", "leased to", "rung", "episodes", "notes"]
    assert lines[2] == ["arm1", "ready", "good", "full", "10"]
    assert lines[3][:6] == ["request", "state", "candidate", "rung", "this rung", "reduced+full"]
    assert lines[4][:3] == [request_id, "runs on arm1", "good"]
    assert lines[4][5] == "3/4"
    code, out, _ = run(capsys, "status")
    assert "champion good" in out
    assert "requests: 1 running" in out
    assert run(capsys, "gate", "explain", "good")[2] == ""
    assert {path: path.stat().st_mtime_ns for path in (lab / "deployment").rglob("*")} == before


def test_an_override_needs_a_reason_and_is_kept(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = lab / "config" / "gate.yaml"
    rules.write_text(rules.read_text().replace("robots: 1", "robots: 2"))
    code, out, _ = run(capsys, "deploy", "request", "good", "--json")
    assert (code, json.loads(out)["state"]) == (1, "refused")
    request = json.loads(out)["request_id"]
    with pytest.raises(SystemExit) as ended:
        main(["deploy", "override", request])
    assert ended.value.code == 2
    assert run(capsys, "deploy", "override", request, "--reason", "one arm is all we have")[0] == 0
    _, out, _ = run(capsys, "audit", "show", "--kind", "override", "--json")
    body = json.loads(out)["body"]
    assert (body["person"], body["reason"]) == ("ada", "one arm is all we have")
    assert "snapshot has 1 robots; the rules ask for 2" in body["gate_said"]


def test_an_edited_audit_log_is_found(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "deploy", "halt", "--reason", "smoke")
    audit_log = lab / "deployment" / "audit.jsonl"
    audit_log.write_text(audit_log.read_text().replace("smoke", "lunch"))
    code, out, err = run(capsys, "audit", "verify")
    assert code == 1
    assert "DAMAGED" in out
    assert "entry 1: was changed after it was written" in err


def test_an_old_queue_put_back_is_found(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "deploy", "halt", "--reason", "smoke")
    for path in (lab / "deployment").glob("queue.db*"):
        path.unlink()
    code, _, err = run(capsys, "deploy", "resume")
    assert code == 1
    assert "an old copy of queue.db was put back" in err


def test_keys_are_listed_and_exported_without_the_private_part(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "keys", "export", "deployment/keys", "arm1/keys")[0] == 0
    code, out, _ = run(capsys, "keys", "list", "arm1/keys", "--json")
    assert code == 0
    assert json.loads(out)["has_private"] is False
    names = sorted(path.name for path in (lab / "arm1" / "keys").iterdir())
    assert [name.partition(".")[2] for name in names] == ["public.pem", "yaml"]
    code, _, err = run(capsys, "keys", "create", "deployment/keys")
    assert code == 1
    assert "already holds a key" in err


def test_simulation_prints_robot_time_against_equal_testing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CONFIG.parent)
    code, out, _ = run(capsys, "deploy", "simulate", "--runs", "50")
    assert code == 0
    assert "ended before the budget did" in out
    code, out, _ = run(capsys, "deploy", "simulate", "--runs", "50", "--json")
    assert json.loads(out)["runs"] == 50
    code, _, err = run(capsys, "deploy", "simulate", "--table", "missing.csv")
    assert (code, err.count("\n")) == (1, 1)


def test_no_deployment_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "deploy", "status")
    assert code == 1
    assert "begin one with `opc keys create" in err
