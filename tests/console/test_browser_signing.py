"""Approvals and labels are signed in a real Chromium, with the key of the person who clicks."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opc_ros.console.app import Console
from opc_ros.console.commands import CommandAnswer
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.people import People, Person, to_ssh_line
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.statement import read_statement
from opc_ros.episode import Label, LabelSource
from opc_ros.store import open_store
from tests.console.browser import choose_key, complaints, forget_key, serve, until, wait
from tests.console.lab_on_disk import HOSTILE, CountingCommands, make_console, make_episode


@pytest.mark.parametrize("form", ["openssh", "pem"])
def test_a_click_is_signed_in_the_browser_with_the_persons_own_key(
    browser: Any, console: Console, address: str, clicked: CountingCommands, form: str
) -> None:
    private = Ed25519PrivateKey.generate()
    shape = PrivateFormat.OpenSSH if form == "openssh" else PrivateFormat.PKCS8
    key = private.private_bytes(Encoding.PEM, shape, NoEncryption()).decode()
    people = People(people={"ada": Person((to_ssh_line(private.public_key()),), ("approver", "labeller"))})
    asked = {
        "id": "4f21c09a",
        "name": "careful",
        "reason": "a person has to decide",
        "candidate_id": "c" * 64,
        "state": "waiting",
        "rung": "twin",
        "requested_by": HOSTILE,
        "findings": [],
        "real": {"successes": 0, "trials": 0},
    }
    console.live.set_document("deployment", {"robots": [], "requests": [asked], "champion": ""})
    clicked.submitted.clear()
    complaints(browser)  # of the tests before
    browser.get(address + "decisions")
    wait(browser, "document.querySelector('#requests button') !== null")
    assert not browser.find_element("css selector", "#requests button").is_enabled()
    choose_key(browser, "ada", key)
    wait(browser, "document.querySelector('#requests button').disabled === false")
    browser.find_element("css selector", "#requests button").click()
    wait(browser, "document.getElementById('notices').textContent === 'approved'")
    said = read_statement(clicked.submitted[0], people)
    assert (said.kind, said.person, said.body.request_id) == ("approve", "ada", "4f21c09a")
    assert said.body.seen == Seen("4f21c09a", {"floor": Verdict.INCONCLUSIVE})
    assert browser.find_element("css selector", "[data-rule=floor]").text.startswith("inconclusive floor: predicted")
    browser.get(address + "ranking")  # the key stays with the person from page to page
    wait(browser, "document.getElementById('identity').textContent === 'Signing as ada'")
    forget_key(browser)
    assert complaints(browser) == []


def test_a_file_that_is_not_a_key_is_refused_and_nothing_can_be_signed(browser: Any, address: str) -> None:
    browser.get(address + "decisions")
    forget_key(browser)
    choose_key(browser, "ada", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")
    wait(browser, "document.getElementById('identity-problem').textContent.includes('Ed25519')")
    assert browser.find_element("id", "identity").text == "No key: view only"


def test_a_decision_that_comes_too_late_is_reported_and_changes_nothing(
    browser: Any, console: Console, address: str, clicked: CountingCommands
) -> None:
    """What a second person's click leads to after the scheduler has decided by the first one's."""
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    browser.get(address + "decisions")
    choose_key(browser, "bob", key)
    wait(browser, "document.querySelector('#requests button').disabled === false")
    clicked.answer = CommandAnswer(False, "request 4f21c09a: is queued; approve is for waiting ones")
    browser.find_element("css selector", "#requests button").click()
    wait(browser, "document.querySelector('#notices p.problem') !== null")
    assert browser.find_element("id", "notices").text == "request 4f21c09a: is queued; approve is for waiting ones"
    forget_key(browser)


def test_many_episodes_are_labelled_with_keys_alone_blind_to_the_policy(browser: Any, tmp_path: Path) -> None:
    commands = CountingCommands()
    console, _ = make_console(tmp_path, commands)
    with open_store(console.lab.paths.store) as store:
        for number in range(4, 14):
            store.append(make_episode(number, is_success=None))
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with serve(console) as address:
        browser.set_window_size(1200, 900)
        browser.get(address + "episodes")
        wait(browser, "document.querySelectorAll('#episodes tbody tr').length === 13")
        choose_key(browser, "ada", key)
        browser.find_element("id", "labelling").click()
        wait(browser, "document.querySelectorAll('#episodes tbody tr').length === 11")
        wait(browser, "!document.getElementById('player').hidden")
        assert HOSTILE not in browser.find_element("id", "episodes").text
        body = browser.find_element("tag name", "body")
        for done in range(1, 9):
            body.send_keys("f" if done % 3 else "s")
            until(lambda expected=done: len(commands.submitted) == expected, "a label was not sent")
            wait(browser, "document.getElementById('player').dataset.busy !== 'true'")
        body.send_keys("u")
        until(lambda: len(commands.submitted) == 9, "nothing was undone")
        said = [json.loads(base64.b64decode(json.loads(text)["payload"]))["body"] for text in commands.submitted]
        assert len({each["episode_id"] for each in said[:8]}) == 8
        assert said[8] == {"episode_id": said[7]["episode_id"], "label": "none", "note": ""}
        assert [each["label"] for each in said[:3]] == ["failure", "failure", "success"]


def test_disputed_episodes_come_first_without_telling_what_others_said(browser: Any, tmp_path: Path) -> None:
    console, _ = make_console(tmp_path, CountingCommands())
    with open_store(console.lab.paths.store) as store:
        for person, is_success in (("ada", True), ("bob", False)):
            store.label("arm1-001", Label(is_success, LabelSource.PERSON, person))
    with serve(console) as address:
        browser.get(address + "episodes")
        wait(browser, "document.getElementById('dispute-list').textContent.includes('ada: success')")
        browser.find_element("id", "labelling").click()
        wait(browser, "document.getElementById('player-title').textContent === 'arm1-001'")
        rows = browser.execute_script(
            "return [...document.querySelectorAll('#episodes tr[data-id]')].map(r => r.dataset.id)"
        )
        assert rows == ["arm1-001", "arm2-003"]  # newest first would be the opposite order
        seen = browser.find_element("id", "episodes").text + browser.find_element("id", "player").text
        for told in ("ada", "bob", "better", "revision", HOSTILE):
            assert told not in seen
        browser.find_element("id", "labelling").click()
        wait(browser, "document.getElementById('dispute-list').textContent.includes('bob: failure')")
