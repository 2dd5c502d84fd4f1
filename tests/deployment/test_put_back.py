"""Files that were valid once, or that anybody may write, do not count again because somebody puts them back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.keys import create_keys, load_trusted_keys
from opc_ros.deployment.people import load_people
from opc_ros.deployment.signed_history import seal_path, sign_history
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, sign_ranking
from opc_ros.deployment.signing import find_signer, load_machine_key, make_person_key
from opc_ros.deployment.statement import RequestBody, RobotBody
from opc_ros.errors import DeploymentError
from opc_ros.ranking import Ranking
from tests.deployment.handling import make_handler
from tests.deployment.lab import SECOND, make_lab, say

HOUR_NS = 3600 * SECOND


def publish(folder: Path, signed_ns: int) -> None:
    """The lab's ranking, as if the scorer had signed it at that time."""
    ranking = Ranking.from_json((folder / "ranking.json").read_text())
    signer = load_machine_key(folder / "deployment" / "keys", "scorer")
    assert signer is not None
    (folder / ENVELOPE_NAME).write_text(sign_ranking(ranking, signer, signed_ns))


def ask(folder: Path, handler: object, candidate_id: str) -> tuple[str, str]:
    """What became of a request; it is withdrawn again."""
    outcome = handler.act_on(say(folder, "request", RequestBody(candidate_id)))  # type: ignore[attr-defined]
    assert outcome.request is not None
    assert outcome.decision is not None
    return outcome.request.state, "; ".join(outcome.decision.reasons)


def test_a_ranking_from_before_the_newest_does_not_count_after_a_restart_either(tmp_path: Path) -> None:
    (candidate,) = make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    now_ns = time.time_ns()
    publish(tmp_path, now_ns - 2 * HOUR_NS)
    old = (tmp_path / ENVELOPE_NAME).read_text()
    publish(tmp_path, now_ns - HOUR_NS)
    first = make_handler(tmp_path)
    state, _ = ask(tmp_path, first, candidate.id)
    assert state != "refused"
    first.note_evidence()
    (tmp_path / ENVELOPE_NAME).write_text(old)
    state, reasons = ask_another(tmp_path)
    assert state == "refused"
    assert "is older than one that counted here before" in reasons
    told = [
        line.body["signed_ns"]
        for line in read_audit_log(tmp_path / "deployment" / "audit.jsonl")
        if line.kind == "ranking_counts"
    ]
    assert told == [now_ns - HOUR_NS]
    publish(tmp_path, now_ns)
    assert ask_another(tmp_path)[0] != "refused"


def ask_another(folder: Path) -> tuple[str, str]:
    """A program that has just started, and a candidate that nobody has requested yet."""
    handler = make_handler(folder)
    for request in handler._queue.requests("waiting", "queued"):
        handler._queue.set_request(request.id, state="done")
    (candidate_id,) = {
        each.candidate_id for each in Ranking.from_json((folder / "ranking.json").read_text()).candidates
    }
    return ask(folder, handler, candidate_id)


def sign_results(folder: Path, line: str, signed_ns: int) -> None:
    """The lab's history, as if ada had signed it at that time."""
    keys, history = folder / "deployment" / "keys", folder / "deployment" / "history.csv"
    history.write_text(f"candidate,successes,episodes\n{line}")
    sign_history(history, keys, find_signer(keys, keys / "ada.person.pem"), signed_ns)


def test_a_history_from_before_the_newest_and_one_taken_away_do_not_count(tmp_path: Path) -> None:
    (candidate,) = make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    now_ns, history = time.time_ns(), tmp_path / "deployment" / "history.csv"
    sign_results(tmp_path, f"{candidate.id},9,10\n", now_ns - 2 * HOUR_NS)
    old = [(path, path.read_bytes()) for path in (history, seal_path(history))]
    sign_results(tmp_path, f"{candidate.id},1,10\n", now_ns - HOUR_NS)
    first = make_handler(tmp_path)
    assert ask(tmp_path, first, candidate.id)[0] != "refused"
    first.note_evidence()
    newest = [(path, path.read_bytes()) for path in (history, seal_path(history))]
    for handler_of in (lambda: first, lambda: None):  # the program that knows it, and one that has just started
        for path, data in old:
            path.write_bytes(data)
        handler = handler_of() or make_handler(tmp_path)
        for request in handler._queue.requests("waiting", "queued"):
            handler._queue.set_request(request.id, state="done")
        state, reasons = ask(tmp_path, handler, candidate.id)
        assert state == "refused"
        assert "is older than one that counted here" in reasons
    for path, _ in newest:
        path.unlink()
    assert "counted here before and is gone" in ask_another(tmp_path)[1]
    for path, data in newest:
        path.write_bytes(data)
    assert ask_another(tmp_path)[0] != "refused"


def test_a_history_signed_in_the_future_does_not_count(tmp_path: Path) -> None:
    (candidate,) = make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    sign_results(tmp_path, f"{candidate.id},9,10\n", time.time_ns() + HOUR_NS)
    state, reasons = ask(tmp_path, make_handler(tmp_path), candidate.id)
    assert state == "refused"
    assert "signed in the future: set the clocks" in reasons


def test_a_ranking_signed_in_the_future_does_not_count_and_holds_no_later_one_up(tmp_path: Path) -> None:
    make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    publish(tmp_path, time.time_ns() + HOUR_NS)
    state, reasons = ask_another(tmp_path)
    assert state == "refused"
    assert "set the clocks" in reasons
    publish(tmp_path, time.time_ns())
    assert ask_another(tmp_path)[0] != "refused"


def test_after_a_clock_that_ran_ahead_was_corrected_rankings_count_again(tmp_path: Path) -> None:
    make_lab(tmp_path, {"arm1": ["full"]}, rung_episodes=(0, 0, 4))
    ahead_ns = time.time_ns() + HOUR_NS
    publish(tmp_path, ahead_ns)
    ran_ahead = make_handler(tmp_path, lambda: ahead_ns)
    ran_ahead._gatekeeper.evidence()
    ran_ahead.note_evidence()
    publish(tmp_path, time.time_ns())
    assert ask_another(tmp_path)[0] == "refused"
    make_handler(tmp_path).act_on(say(tmp_path, "accept_clock", RobotBody(reason="it ran ahead")))
    publish(tmp_path, time.time_ns())
    assert ask_another(tmp_path)[0] != "refused"


@pytest.mark.parametrize("what", ["people.yaml", "public key", "folder"])
def test_whom_to_trust_is_not_read_from_what_everybody_may_write(tmp_path: Path, what: str) -> None:
    keys = tmp_path / "keys"
    signer = create_keys(keys)
    make_person_key(keys, "ada")
    load_trusted_keys(keys)
    load_people(keys)
    path = {"people.yaml": keys / "people.yaml", "public key": keys / f"{signer.key_id}.public.pem", "folder": keys}[
        what
    ]
    path.chmod(path.stat().st_mode | 0o002)
    load = load_people if what == "people.yaml" else load_trusted_keys
    with pytest.raises(DeploymentError, match="anybody on this machine could say whom to trust"):
        load(keys)
