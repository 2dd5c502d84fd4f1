"""The console in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opc_ros.console.app import Console
from opc_ros.console.server import ConsoleServer
from tests.console.browser import complaints, open_browser
from tests.console.lab_on_disk import HOSTILE, CountingCommands, make_console

WAIT_S = 20.0


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


def test_the_red_button_stops_every_arm_from_every_page(
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


def test_a_lost_connection_is_said(browser: Any, tmp_path: Path) -> None:
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
