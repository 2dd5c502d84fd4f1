"""The console in a real Chromium."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opc_ros.console.app import Console
from opc_ros.console.commands import CommandAnswer
from opc_ros.console.server import ConsoleServer
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.people import People, Person, to_ssh_line
from opc_ros.deployment.seen import Seen
from opc_ros.deployment.statement import read_statement
from opc_ros.episode import Label, LabelSource
from opc_ros.store import open_store
from opc_ros.store.recovery import recover
from opc_ros.workflows.candidate_tags import CandidateTags
from tests.console.browser import complaints, open_browser
from tests.console.lab_on_disk import HOSTILE, CountingCommands, make_console, make_episode, publish_ranking

WAIT_S = 60.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def commands() -> CountingCommands:
    return CountingCommands()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, commands: CountingCommands) -> Console:
    return make_console(tmp_path_factory.mktemp("lab"), commands)[0]


@pytest.fixture(scope="module")
def address(console: Console) -> Iterator[str]:
    server = ConsoleServer(console)
    try:
        yield server.start()
    finally:
        server.stop()


def wait(browser: Any, script: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, WAIT_S).until(lambda opened: opened.execute_script(f"return {script}"))


def test_an_event_and_a_robot_appear_without_reloading(browser: Any, console: Console, address: str) -> None:
    browser.get(address)
    wait(browser, "document.getElementById('lab').textContent.includes('0 arms')")
    console.live.update_robot("arm1", state="running", reason=HOSTILE)
    console.live.add_event(1_700_000_000_000_000_000, "arm1", "stop", HOSTILE)
    wait(browser, "document.querySelector('.events li') !== null")
    assert HOSTILE in browser.find_element("css selector", ".events li").text
    assert browser.find_element("css selector", ".card .state").text == "running"
    assert complaints(browser) == []


def test_the_stop_button_stops_every_arm_from_every_page(
    browser: Any, console: Console, address: str, commands: CountingCommands
) -> None:
    console.live.update_robot("arm1", state="running")
    for page in ("", "ranking", "decisions", "episodes", "race", "reports"):
        commands.stopped.clear()
        browser.get(address + page)
        browser.find_element("id", "stop-all").click()
        wait(browser, "document.querySelector('#notices p') !== null")
        assert browser.find_element("id", "notices").text == "stopped: arm1"
        assert commands.stopped == [("arm1",)]


def test_an_episode_is_played_and_its_curves_are_drawn(browser: Any, address: str) -> None:
    browser.get(address + "episodes")
    wait(browser, "document.querySelectorAll('#episodes tbody tr').length === 3")
    assert HOSTILE in browser.find_element("id", "episodes").text
    browser.find_element("css selector", "tr[data-id='arm1-001']").click()
    wait(browser, "document.querySelectorAll('#curves polyline').length === 1")
    wait(browser, "document.getElementById('frame').naturalWidth === 32")
    assert "of 3" in browser.find_element("id", "step-number").text
    assert complaints(browser) == []


def test_a_lost_connection_is_shown(browser: Any, tmp_path: Path) -> None:
    server = ConsoleServer(make_console(tmp_path)[0])
    browser.get(server.start())
    wait(browser, "document.getElementById('lab').textContent.includes('arms')")
    server.stop()
    wait(browser, "document.getElementById('lab').textContent.startsWith('Connection lost')")
    browser.find_element("id", "stop-all").click()
    wait(browser, "document.querySelector('#notices p.problem') !== null")


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_screen(browser: Any, address: str, width: int) -> None:
    browser.set_window_size(width, 900)
    for page in ("", "ranking", "decisions", "episodes", "race", "reports"):
        browser.get(address + page)
        assert browser.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), page


def test_a_stop_goes_out_however_many_pages_are_open(
    browser: Any, console: Console, address: str, commands: CountingCommands
) -> None:
    """A browser opens six connections to one server, and each page that follows the lab holds one of them."""
    console.live.update_robot("arm1", state="running")
    commands.stopped.clear()
    first = browser.current_window_handle
    opened = []
    try:
        for _ in range(7):
            browser.switch_to.new_window("tab")
            opened.append(browser.current_window_handle)
            browser.get(address)
            wait(browser, "document.getElementById('lab').textContent.includes('arms')")
        browser.find_element("id", "stop-all").click()
        until(lambda: commands.stopped == [("arm1",)], "the stop did not arrive")
    finally:
        for handle in opened:
            browser.switch_to.window(handle)
            browser.close()
        browser.switch_to.window(first)


def test_a_camera_that_showed_nothing_new_is_asked_for_again(browser: Any, tmp_path: Path) -> None:
    console, clock = make_console(tmp_path)
    console.live.update_robot("arm1", state="running")
    server = ConsoleServer(console)
    try:
        browser.get(server.start())
        console.live.set_image("arm1", b"")
        until(lambda: "arm1" in console.live.watched(), "nobody asked for the image")
        wait(browser, "performance.getEntriesByType('resource').some(each => each.name.includes('arm1.jpg?1-'))")
        clock.now_s += 6.0  # during which no other image arrived
        until(lambda: "arm1" in console.live.watched(), "the camera was forgotten")
    finally:
        server.stop()


def test_a_long_reason_for_quarantine_fits_on_a_phone(browser: Any, tmp_path: Path) -> None:
    console, _ = make_console(tmp_path)
    with open_store(console.lab.paths.store) as store:
        store.file_of("arm1-001").write_bytes(b"cut off")
        recover(store, is_quick=True)
    server = ConsoleServer(console)
    try:
        phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        browser.get(server.start() + "episodes")
        wait(browser, "document.getElementById('quarantine').textContent.includes('sha256')")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        server.stop()


PLACE = """(box => JSON.stringify([Math.round(document.documentElement.clientWidth - box.right), Math.round(box.top)]))(
    document.getElementById('stop-all').getBoundingClientRect())"""


def test_the_stop_button_is_at_the_same_place_on_every_page_and_stays_there_while_scrolling(
    browser: Any, console: Console, address: str
) -> None:
    places = set()
    for width in (500, 1200):
        browser.set_window_size(width, 900)
        for page in ("", "ranking", "decisions", "episodes", "race", "reports"):
            browser.get(address + page)
            places.add(browser.execute_script(f"return {PLACE}"))
            browser.execute_script("document.body.style.minHeight = '4000px'; window.scrollTo(0, 2000)")
            places.add(browser.execute_script(f"return {PLACE}"))
    assert len(places) == 1, places


def choose_key(browser: Any, name: str, key: str) -> None:
    wait(browser, "document.getElementById('identity').offsetParent !== null")
    browser.find_element("id", "identity").click()
    browser.execute_script("document.getElementById('identity-name').value = arguments[0]", name)
    browser.execute_script("document.getElementById('identity-key').value = arguments[0]", key)
    browser.find_element("id", "identity-use").click()


@pytest.mark.parametrize("form", ["openssh", "pem"])
def test_a_click_is_signed_in_the_browser_with_the_persons_own_key(
    browser: Any, console: Console, address: str, commands: CountingCommands, form: str
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
    commands.submitted.clear()
    complaints(browser)  # of the tests before
    browser.get(address + "decisions")
    wait(browser, "document.querySelector('#requests button') !== null")
    assert not browser.find_element("css selector", "#requests button").is_enabled()
    choose_key(browser, "ada", key)
    wait(browser, "document.querySelector('#requests button').disabled === false")
    browser.find_element("css selector", "#requests button").click()
    wait(browser, "document.getElementById('notices').textContent === 'approved'")
    said = read_statement(commands.submitted[0], people)
    assert (said.kind, said.person, said.body.request_id) == ("approve", "ada", "4f21c09a")
    assert said.body.seen == Seen("4f21c09a", {"floor": Verdict.INCONCLUSIVE})
    assert browser.find_element("css selector", "[data-rule=floor]").text.startswith("inconclusive floor: predicted")
    browser.get(address + "ranking")  # the key stays with the person from page to page
    wait(browser, "document.getElementById('identity').textContent === 'Signing as ada'")
    forget_key(browser)
    assert complaints(browser) == []


def forget_key(browser: Any) -> None:
    browser.find_element("id", "identity").click()
    browser.find_element("id", "identity-forget").click()
    wait(browser, "document.getElementById('identity').textContent === 'No key: view only'")


def test_a_file_that_is_not_a_key_is_refused_and_nothing_can_be_signed(browser: Any, address: str) -> None:
    browser.get(address + "decisions")
    forget_key(browser)
    choose_key(browser, "ada", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")
    wait(browser, "document.getElementById('identity-problem').textContent.includes('Ed25519')")
    assert browser.find_element("id", "identity").text == "No key: view only"


def test_a_page_of_an_earlier_console_is_told_to_reload(browser: Any, tmp_path: Path) -> None:
    first, _ = make_console(tmp_path)
    server = ConsoleServer(first)
    address = server.start()
    browser.get(address + "reports")
    server.stop()
    again = CountingCommands()
    restarted = Console(first.live, first.lab, again, "another token")
    first.live.update_robot("arm1")
    server = ConsoleServer(restarted, port=int(address.rstrip("/").rpartition(":")[2]))
    try:
        server.start()
        browser.find_element("id", "stop-all").click()
        wait(browser, "document.getElementById('notices').textContent.includes('reload')")
        assert again.stopped == []
    finally:
        server.stop()


def test_a_decision_that_comes_too_late_is_reported_and_changes_nothing(
    browser: Any, console: Console, address: str, commands: CountingCommands
) -> None:
    """What a second person's click leads to after the scheduler has decided by the first one's."""
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    browser.get(address + "decisions")
    choose_key(browser, "bob", key)
    wait(browser, "document.querySelector('#requests button').disabled === false")
    commands.answer = CommandAnswer(False, "request 4f21c09a: is queued; approve is for waiting ones")
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
    server = ConsoleServer(console)
    try:
        browser.set_window_size(1200, 900)
        browser.get(server.start() + "episodes")
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
    finally:
        server.stop()


def test_disputed_episodes_come_first_without_telling_what_others_said(browser: Any, tmp_path: Path) -> None:
    console, _ = make_console(tmp_path, CountingCommands())
    with open_store(console.lab.paths.store) as store:
        for person, is_success in (("ada", True), ("bob", False)):
            store.label("arm1-001", Label(is_success, LabelSource.PERSON, person))
    server = ConsoleServer(console)
    try:
        browser.get(server.start() + "episodes")
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
    finally:
        server.stop()


def test_keys_step_through_frames_and_leave_the_button_in_focus_alone(browser: Any, address: str) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.set_window_size(1200, 900)
    browser.get(address + "episodes?id=arm1-001")
    wait(browser, "document.getElementById('step-number').textContent === '1 of 3'")
    body = browser.find_element("tag name", "body")
    for key, shown in ((Keys.RIGHT, "2"), (Keys.RIGHT, "3"), (Keys.RIGHT, "3"), (Keys.LEFT, "2")):
        body.send_keys(key)
        assert browser.find_element("id", "step-number").text == f"{shown} of 3"
    browser.find_element("id", "identity").send_keys(" ")
    wait(browser, "document.getElementById('identity-dialog').open")
    assert browser.find_element("id", "step-number").text == "2 of 3"


def test_the_ranking_is_filtered_by_tag_and_sorted_with_the_best_first(browser: Any, tmp_path: Path) -> None:
    console, _ = make_console(tmp_path)
    ranking = publish_ranking(console, candidates=6)
    console.lab.paths.candidates.mkdir()
    tagged = [ranking.candidates[place] for place in (1, 4)]
    for each in tagged:
        CandidateTags(console.lab.paths.candidates).add(each.candidate_id, ["wrist"])
    server = ConsoleServer(console)
    names = "[...document.querySelectorAll('#ranking tbody th')].map(cell => cell.firstChild.textContent)"
    complaints(browser)  # of the tests before
    try:
        browser.get(server.start() + "ranking")
        wait(browser, "document.querySelectorAll('#ranking tbody tr').length === 6")
        browser.execute_script("document.querySelector('#ranking th[data-key=score] button').click()")
        assert browser.execute_script(f"return {names}") == [each.name for each in ranking.candidates]
        field = browser.find_element("id", "tag")
        field.send_keys("wrist")
        wait(browser, "document.querySelectorAll('#ranking tbody tr').length === 2")
        assert browser.execute_script(f"return {names}") == [each.name for each in tagged]
        assert complaints(browser) == []
    finally:
        server.stop()


def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)
