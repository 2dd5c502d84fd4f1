"""A day at the console, as a person uses it: real nodes, a real browser, a scripted arm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("rclpy")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opc_ros.cli.main import main
from opc_ros.deployment.audit_check import read_audit_log
from tests.console.browser import complaints, open_browser
from tests.deployment.lab import GATE, make_lab, runner_parameters, scheduler_parameters
from tests.ros.conftest import Probe, Process
from tests.ros.test_console_node import address_of

pytestmark = pytest.mark.ros

Start = Callable[..., Process]
PATIENCE_S = 120.0


class Person:
    """A person in front of the page."""

    def __init__(self, browser: Any, address: str) -> None:
        self._browser = browser
        self._address = address

    def open(self, page: str) -> None:
        self._browser.get(self._address + page)

    def run(self, script: str) -> None:
        self._browser.execute_script(script)

    def wait(self, script: str, *words: str) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self._browser, PATIENCE_S).until(
            lambda opened: opened.execute_script(f"return {script}", *words), f"never true: {script} {words}"
        )

    def click(self, selector: str) -> None:
        """As soon as it can be clicked; the page may redraw itself at any moment."""
        self.wait("(b => b && !b.disabled && !b.hidden)(document.querySelector(arguments[0]))", selector)
        self._browser.execute_script("document.querySelector(arguments[0]).click()", selector)

    def use_key(self, name: str, key: str) -> None:
        self.click("#identity")
        for field, text in (("identity-name", name), ("identity-key", key)):
            self._browser.execute_script("document.getElementById(arguments[0]).value = arguments[1]", field, text)
        self.click("#identity-use")
        self.wait("document.getElementById('identity').textContent === arguments[0]", f"Signing as {name}")

    def decide(self, word: str) -> None:
        """Click the button with this title on the first request."""
        self.wait(
            f"[...document.querySelectorAll('#requests button')].some(b => b.textContent === '{word}' && !b.disabled)"
        )
        self._browser.execute_script(
            "[...document.querySelectorAll('#requests button')].find(b => b.textContent === arguments[0]).click()", word
        )


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Two candidates, a gate that asks a person about every request, and a ladder of two rungs."""
    make_lab(
        tmp_path,
        {"arm1": ["reduced", "full"]},
        candidates=2,
        rung_episodes=(0, 2, 2),
        request_episodes=5000,
        batch_episodes=8,
    )
    rules = yaml.safe_load((tmp_path / "scheduler.yaml").read_text())
    rules["lease"]["heartbeat_s"] = 60.0
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump(GATE | {"approval": ["every_request"]}))
    return tmp_path


def test_a_day_at_the_console(lab: Path, start: Start, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_browser(lab / "profile") as browser:
        start("recorder", "/arm1", store=lab / "store")
        start("policy_runner", "/arm1", **runner_parameters(lab, "arm1", ["reduced", "full"], wait_for_recorder=True))
        start("scheduler", "/", **scheduler_parameters(lab))
        folders = {"store": lab / "store", "scores": lab / "scores" / "published"}
        folders |= {"deployment": lab / "deployment", "candidates": lab / "candidates"}
        console = start("console", "/", port=0, **folders)
        monkeypatch.chdir(lab / "arm1")  # where there is no deployment, so that no signatures are required
        words = ["score", "--store", str(lab / "store"), "--candidates", str(lab / "candidates")]
        assert main([*words, "--scores", str(lab / "scores")]) == 0
        person = Person(browser, address_of(console, probe))
        request_robot_time(person, (lab / "deployment" / "keys" / "ada.person.pem").read_text())
        approve(person, (lab / "deployment" / "keys" / "ada.person.pem").read_text())
        watch_it_climb(person)
        label_an_episode(person)
        stop_and_release(person)
        person.open("decisions")
        for kind in ("request", "approve", "permit", "episode", "relabelled", "statement_refused"):
            person.wait("document.querySelector('#audit tbody').textContent.includes(arguments[0])", kind)
        assert complaints(browser) == []
    said = [entry for entry in read_audit_log(lab / "deployment" / "audit.jsonl") if entry.kind == "approve"]
    assert [entry.body["person"] for entry in said] == ["ada"]  # once, though three people tried


def request_robot_time(person: Person, key: str) -> None:
    person.open("ranking")
    person.wait("document.querySelectorAll('#ranking tbody tr').length === 2")
    for row in (1, 2):
        person.click(f"#ranking tbody tr:nth-child({row}) input")
    person.click("#compare")
    person.wait("document.querySelectorAll('#comparison figure').length === 2")
    assert person.wait("document.querySelector('#ranking .request').disabled")
    person.use_key("ada", key)
    person.run("document.getElementById('notices').replaceChildren()")
    person.click("#ranking .request")
    person.wait("document.querySelector('#notices p') !== null")  # leaving a page before then takes the click back


def approve(person: Person, key: str) -> None:
    """By somebody with a wrong key, which changes nothing, by the right person, and once more too late."""
    stranger = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    person.open("decisions")
    person.wait("document.querySelector('[data-rule=approval]') !== null")
    person.use_key("ada", stranger)
    person.decide("Approve")
    person.wait("document.querySelector('#notices p.problem') !== null")
    person.wait("document.querySelector('#requests [data-state=waiting]') !== null")
    person.use_key("ada", key)
    person.decide("Approve")
    person.wait("document.querySelector('#requests [data-state=queued]') !== null")
    again = (
        "window.late = ''; const id = document.querySelector('#requests article').dataset.request;"
        " import('/static/statements.js').then((m) => m.submit('approve', { request_id: id, reason: '',"
        " seen: { request_id: id, findings: { approval: 'inconclusive' } } }))"
        ".then((a) => { window.late = a.message; })"
    )
    person.run(again)
    assert "is queued; approve is for waiting ones" in person.wait("window.late")


def watch_it_climb(person: Person) -> None:
    person.open("")
    person.wait("document.querySelector('.card .state')?.textContent === 'running'")
    person.wait("document.querySelector('.card dl')?.textContent.includes('rung full')")
    person.wait("/[0-9]+ of [0-9]+ episodes succeeded/.test(document.querySelector('.card dl').textContent)")
    person.wait("[...document.querySelectorAll('#events li')].some(line => line.textContent.includes('arm1 saved'))")


def label_an_episode(person: Person) -> None:
    person.open("episodes")
    person.click("#episodes tbody tr")
    person.wait("document.getElementById('player-title').textContent !== ''")
    person.click("#say-failure")
    person.wait("document.getElementById('history').textContent.includes('failure by ada, signed')")


def stop_and_release(person: Person) -> None:
    person.open("")
    person.click(".card button.stop")
    person.wait("document.querySelector('.card .state').textContent === 'stopped'")
    person.click(".card button.release")
    person.wait("document.querySelector('.card .state').textContent === 'running'")
