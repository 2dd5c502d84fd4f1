"""A real Chromium for tests, driven as a person would."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opc_ros.console.app import Console
from opc_ros.console.server import ConsoleServer

WAIT_S = 60.0
PAGES = ("", "ranking", "decisions", "episodes", "race", "reports")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def open_browser(profile: Path, *, width: int = 1200, height: int = 900) -> Iterator[Any]:
    """A browser with an empty profile; the test is skipped on a machine that has none."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = browser
    for switch in (*SWITCHES, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        opened.set_page_load_timeout(60)
        yield opened
    finally:
        opened.quit()


def complaints(browser: Any) -> list[str]:
    """What the browser itself complained about: script errors, and what the page's policy blocked."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def wait(browser: Any, script: str) -> Any:
    """What the script says, once it says something."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, WAIT_S).until(lambda opened: opened.execute_script(f"return {script}"))


def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


@contextmanager
def serve(console: Console, port: int = 0) -> Iterator[str]:
    """The address at which a console is served meanwhile."""
    server = ConsoleServer(console, port=port)
    try:
        yield server.start()
    finally:
        server.stop()


def choose_key(browser: Any, name: str, key: str) -> None:
    wait(browser, "document.getElementById('identity').offsetParent !== null")
    browser.find_element("id", "identity").click()
    browser.execute_script("document.getElementById('identity-name').value = arguments[0]", name)
    browser.execute_script("document.getElementById('identity-key').value = arguments[0]", key)
    browser.find_element("id", "identity-use").click()


def forget_key(browser: Any) -> None:
    browser.find_element("id", "identity").click()
    browser.find_element("id", "identity-forget").click()
    wait(browser, "document.getElementById('identity').textContent === 'No key: view only'")
