"""The red button in a real Chromium: on every page, at one place, however many are open, and when it is no help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opc_ros.console.app import Console
from tests.console.browser import PAGES, serve, until, wait
from tests.console.lab_on_disk import CountingCommands, make_console


def test_the_stop_button_stops_every_arm_from_every_page(
    browser: Any, console: Console, address: str, clicked: CountingCommands
) -> None:
    console.live.update_robot("arm1", state="running")
    for page in PAGES:
        clicked.stopped.clear()
        browser.get(address + page)
        browser.find_element("id", "stop-all").click()
        wait(browser, "document.querySelector('#notices p') !== null")
        assert browser.find_element("id", "notices").text == "stopped: arm1"
        assert clicked.stopped == [("arm1",)]


def test_a_lost_connection_is_shown(browser: Any, tmp_path: Path) -> None:
    with serve(make_console(tmp_path)[0]) as address:
        browser.get(address)
        wait(browser, "document.getElementById('lab').textContent.includes('arms')")
    wait(browser, "document.getElementById('lab').textContent.startsWith('Connection lost')")
    browser.find_element("id", "stop-all").click()
    wait(browser, "document.querySelector('#notices p.problem') !== null")


def test_a_stop_goes_out_however_many_pages_are_open(
    browser: Any, console: Console, address: str, clicked: CountingCommands
) -> None:
    """A browser opens six connections to one server, and each page that follows the lab holds one of them."""
    console.live.update_robot("arm1", state="running")
    clicked.stopped.clear()
    first = browser.current_window_handle
    opened = []
    try:
        for _ in range(7):
            browser.switch_to.new_window("tab")
            opened.append(browser.current_window_handle)
            browser.get(address)
            wait(browser, "document.getElementById('lab').textContent.includes('arms')")
        browser.find_element("id", "stop-all").click()
        until(lambda: clicked.stopped == [("arm1",)], "the stop did not arrive")
    finally:
        for handle in opened:
            browser.switch_to.window(handle)
            browser.close()
        browser.switch_to.window(first)


PLACE = """(box => JSON.stringify([Math.round(document.documentElement.clientWidth - box.right), Math.round(box.top)]))(
    document.getElementById('stop-all').getBoundingClientRect())"""


def test_the_stop_button_is_at_the_same_place_on_every_page_and_stays_there_while_scrolling(
    browser: Any, console: Console, address: str
) -> None:
    places = set()
    for width in (500, 1200):
        browser.set_window_size(width, 900)
        for page in PAGES:
            browser.get(address + page)
            places.add(browser.execute_script(f"return {PLACE}"))
            browser.execute_script("document.body.style.minHeight = '4000px'; window.scrollTo(0, 2000)")
            places.add(browser.execute_script(f"return {PLACE}"))
    assert len(places) == 1, places


def test_a_page_of_an_earlier_console_is_told_to_reload(browser: Any, tmp_path: Path) -> None:
    first, _ = make_console(tmp_path)
    with serve(first) as address:
        browser.get(address + "reports")
    again = CountingCommands()
    restarted = Console(first.live, first.lab, again, "another token")
    first.live.update_robot("arm1")
    with serve(restarted, port=int(address.rstrip("/").rpartition(":")[2])):
        browser.find_element("id", "stop-all").click()
        wait(browser, "document.getElementById('notices').textContent.includes('reload')")
        assert again.stopped == []
