"""What pages show in a real Chromium, on a wide screen and on a phone, and what keys do on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opc_ros.console.app import Console
from opc_ros.store import open_store
from opc_ros.store.recovery import recover
from opc_ros.workflows.candidate_tags import CandidateTags
from tests.console.browser import PAGES, complaints, serve, until, wait
from tests.console.lab_on_disk import HOSTILE, make_console, publish_ranking


def test_an_event_and_a_robot_appear_without_reloading(browser: Any, console: Console, address: str) -> None:
    browser.get(address)
    wait(browser, "document.getElementById('lab').textContent.includes('0 arms')")
    console.live.update_robot("arm1", state="running", reason=HOSTILE)
    console.live.add_event(1_700_000_000_000_000_000, "arm1", "stop", HOSTILE)
    wait(browser, "document.querySelector('.events li') !== null")
    assert HOSTILE in browser.find_element("css selector", ".events li").text
    assert browser.find_element("css selector", ".card .state").text == "running"
    assert complaints(browser) == []


def test_an_episode_is_played_and_its_curves_are_drawn(browser: Any, address: str) -> None:
    browser.get(address + "episodes")
    wait(browser, "document.querySelectorAll('#episodes tbody tr').length === 3")
    assert HOSTILE in browser.find_element("id", "episodes").text
    browser.find_element("css selector", "tr[data-id='arm1-001']").click()
    wait(browser, "document.querySelectorAll('#curves polyline').length === 1")
    wait(browser, "document.getElementById('frame').naturalWidth === 32")
    assert "of 3" in browser.find_element("id", "step-number").text
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_screen(browser: Any, address: str, width: int) -> None:
    browser.set_window_size(width, 900)
    for page in PAGES:
        browser.get(address + page)
        assert browser.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), page


def test_a_camera_that_showed_nothing_new_is_asked_for_again(browser: Any, tmp_path: Path) -> None:
    console, clock = make_console(tmp_path)
    console.live.update_robot("arm1", state="running")
    with serve(console) as address:
        browser.get(address)
        console.live.set_image("arm1", b"")
        until(lambda: "arm1" in console.live.watched(), "nobody asked for the image")
        wait(browser, "performance.getEntriesByType('resource').some(each => each.name.includes('arm1.jpg?1-'))")
        clock.now_s += 6.0  # during which no other image arrived
        until(lambda: "arm1" in console.live.watched(), "the camera was forgotten")


def test_a_long_reason_for_quarantine_fits_on_a_phone(browser: Any, tmp_path: Path) -> None:
    console, _ = make_console(tmp_path)
    with open_store(console.lab.paths.store) as store:
        store.file_of("arm1-001").write_bytes(b"cut off")
        recover(store, is_quick=True)
    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    with serve(console) as address:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        try:
            browser.get(address + "episodes")
            wait(browser, "document.getElementById('quarantine').textContent.includes('sha256')")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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
    names = "[...document.querySelectorAll('#ranking tbody th')].map(cell => cell.firstChild.textContent)"
    complaints(browser)  # of the tests before
    with serve(console) as address:
        browser.get(address + "ranking")
        wait(browser, "document.querySelectorAll('#ranking tbody tr').length === 6")
        browser.execute_script("document.querySelector('#ranking th[data-key=score] button').click()")
        assert browser.execute_script(f"return {names}") == [each.name for each in ranking.candidates]
        field = browser.find_element("id", "tag")
        field.send_keys("wrist")
        wait(browser, "document.querySelectorAll('#ranking tbody tr').length === 2")
        assert browser.execute_script(f"return {names}") == [each.name for each in tagged]
        assert complaints(browser) == []
