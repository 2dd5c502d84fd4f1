"""The console of a small lab, asked over HTTP by a client of tests or looked at with a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from opc_ros.console.app import Console, build_app
from tests.console.browser import open_browser, serve
from tests.console.lab_on_disk import ORIGIN, Clock, CountingCommands, make_console


@pytest.fixture
def commands() -> CountingCommands:
    return CountingCommands()


@pytest.fixture
def lab(tmp_path: Path, commands: CountingCommands) -> tuple[Console, Clock]:
    return make_console(tmp_path, commands)


@pytest.fixture
def client(lab: tuple[Console, Clock]) -> TestClient:
    return TestClient(build_app(lab[0]), base_url=ORIGIN)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def clicked() -> CountingCommands:
    """What the pages at `address` told the lab to do."""
    return CountingCommands()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, clicked: CountingCommands) -> Console:
    return make_console(tmp_path_factory.mktemp("lab"), clicked)[0]


@pytest.fixture(scope="module")
def address(console: Console) -> Iterator[str]:
    with serve(console) as served:
        yield served
