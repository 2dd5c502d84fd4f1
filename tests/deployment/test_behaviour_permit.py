from __future__ import annotations

import dataclasses
import json

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.behaviour_permit import (
    EpisodeBudget,
    issue_behaviour_permit,
    open_behaviour_permit,
    read_signed,
)
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.keys import PRIVATE_NAME, create_keys
from opc_ros.deployment.people import add_person, load_people
from opc_ros.errors import PermitRefused

HOUR_NS = 3_600_000_000_000
NOW_NS = 1_700_000_000_000_000_000


@pytest.fixture
def ada(tmp_path):
    return create_keys(tmp_path / "ada")


@pytest.fixture
def people(ada, tmp_path):
    folder = tmp_path / "deployment" / "keys"
    add_person(folder, "ada", ada.private_key.public_key(), ["operator"])
    return load_people(folder)


def sign(signer, **changes: object) -> Signed:
    given: dict = {"person": "ada", "robot": "arm1", "policy": "blind_grasps", "episodes": 3, "speed": 0.3}
    return issue_behaviour_permit(signer, **(given | {"now_ns": NOW_NS, "hours": 2.0} | changes))


def check(signed: Signed, people, **changes: object):
    given: dict = {"robot": "arm1", "policy": "blind_grasps", "now_ns": NOW_NS + HOUR_NS}
    return open_behaviour_permit(signed, people, **(given | changes))


def test_what_a_person_signed_is_allowed(ada, people):
    permit = check(sign(ada), people)
    assert (permit.person, permit.episodes, permit.speed) == ("ada", 3, 0.3)


def test_another_robot_another_policy_and_another_day_are_refused(ada, people):
    signed = sign(ada)
    for changes, complaint in (
        ({"robot": "arm2"}, "is for robot arm1, expected arm2"),
        ({"policy": "teleoperation"}, "is for policy blind_grasps, expected teleoperation"),
        ({"now_ns": NOW_NS + 3 * HOUR_NS}, r"ended 1\.0 hours ago"),
        ({"now_ns": NOW_NS - HOUR_NS}, r"begins in 1\.0 hours"),
    ):
        with pytest.raises(PermitRefused, match=complaint):
            check(signed, people, **changes)


def test_a_stranger_and_a_changed_text_are_refused(ada, people, tmp_path):
    with pytest.raises(PermitRefused, match="which this robot does not trust"):
        check(sign(create_keys(tmp_path / "stranger")), people)
    signed = sign(ada)
    more = dataclasses.replace(signed, payload=signed.payload.replace('"episodes":3', '"episodes":900'))
    with pytest.raises(PermitRefused, match="forged or damaged"):
        check(more, people)


@pytest.mark.parametrize("changes", [{"episodes": 0}, {"hours": -1.0}, {"speed": 0.9}, {"speed": 0.0}, {"person": ""}])
def test_nonsense_is_not_signed(ada, changes):
    with pytest.raises(PermitRefused):
        sign(ada, **changes)


def test_a_permit_for_a_candidate_does_not_cover_a_behaviour_policy(ada, people):
    from opc_ros.deployment.audit_log import AuditHead
    from opc_ros.deployment.permit import Permit, Rung, sign_permit

    permit = Permit("p", "l", "c", "arm1", Rung.FULL, 3, NOW_NS, NOW_NS + 2 * HOUR_NS, AuditHead(0, ""))
    with pytest.raises(PermitRefused, match="behaviour-permit: got a document of type"):
        check(sign_permit(permit, ada), people)


def test_a_restart_does_not_give_episodes_back(ada, people, tmp_path):
    permit = check(sign(ada), people)
    for left in (3, 2, 1):
        budget = EpisodeBudget(tmp_path, permit)
        assert budget.left == left
        budget.spend()
    with pytest.raises(PermitRefused, match="all 3 episodes have been used"):
        EpisodeBudget(tmp_path, permit).spend()


def test_an_operator_cannot_sign_for_another_and_others_cannot_sign_at_all(ada, people, tmp_path):
    bob = create_keys(tmp_path / "bob")
    folder = tmp_path / "deployment" / "keys"
    add_person(folder, "bob", bob.private_key.public_key(), ["requester", "approver", "labeller"])
    with pytest.raises(PermitRefused, match="does not trust"):
        check(sign(bob, person="bob"), load_people(folder))
    add_person(folder, "bob", bob.private_key.public_key(), ["operator"])
    assert check(sign(bob, person="bob"), load_people(folder)).person == "bob"
    with pytest.raises(PermitRefused, match="does not trust"):
        check(sign(bob, person="ada"), load_people(folder))


def test_the_command_signs_where_the_robot_looks(ada, people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["permit", "--key", f"ada/{PRIVATE_NAME}", "--robot", "arm1", "--policy", "blind_grasps"]
    assert main([*words, "--episodes", "200", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["path"], told["person"], told["episodes"]) == ("robots/arm1/behaviour.permit", "ada", 200)
    assert read_signed(tmp_path / told["path"]).key_id == ada.key_id
    assert main([*words, "--episodes", "200", "--speed", "2"]) == 1
    assert "expected above 0 and at most 0.5" in capsys.readouterr().err
