"""Who may read and who may change: other pages, other hosts, no token, odd bodies and floods get nothing done."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from opc_ros.console.app import Console, build_app
from opc_ros.console.guarding import BURST, Guarded
from tests.console.lab_on_disk import ORIGIN, OWN, Clock, CountingCommands


@pytest.mark.parametrize("path", ["/", "/ranking", "/decisions", "/episodes", "/race", "/reports"])
def test_every_page_comes_with_strict_headers_and_no_inline_script(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert "default-src 'none'" in policy
    assert "<script>" not in answer.text
    assert " onclick=" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": ORIGIN},
        {"origin": ORIGIN, "x-opc-console": "guess"},
        {"x-opc-console": "secret"},
        {"origin": "http://evil.example", "x-opc-console": "secret"},
        {"origin": "null", "x-opc-console": "secret"},
    ],
)
def test_what_does_not_come_from_the_consoles_own_page_changes_nothing(
    client: TestClient, commands: CountingCommands, headers: dict[str, str]
) -> None:
    answer = client.post("/api/stop", json={"robot": ""}, headers=headers)
    assert answer.status_code == 403
    assert client.post("/api/statements", json={"envelope": "{}"}, headers=headers).status_code == 403
    assert (commands.stopped, commands.submitted) == ([], [])


def test_another_host_name_is_not_served(lab: tuple[Console, Clock]) -> None:
    rebound = TestClient(build_app(lab[0]), base_url="http://evil.example")
    assert rebound.get("/api/now").status_code == 421


def test_beyond_loopback_everybody_needs_the_token(lab: tuple[Console, Clock]) -> None:
    app = build_app(lab[0], hosts=frozenset({"lab.local"}), needs_token_to_read=True)
    client = TestClient(app, base_url="http://lab.local", follow_redirects=False)
    assert client.get("/api/now").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    first = client.get("/?token=secret")
    assert first.status_code == 303
    assert "httponly" in first.headers["set-cookie"].lower()
    assert client.get("/api/now").status_code == 200


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"robot": 7}', b'{"robot": "' + b"x" * 300 + b'"}'])
def test_a_body_that_is_not_expected_is_refused_in_one_line(
    client: TestClient, commands: CountingCommands, body: bytes
) -> None:
    answer = client.post("/api/stop", content=body, headers=OWN)
    assert answer.status_code in (400, 409)
    assert "expected" in answer.json()["error"]
    assert commands.stopped == []


def test_a_flood_is_slowed_down(lab: tuple[Console, Clock]) -> None:
    app = Guarded(
        build_app(lab[0]), token="", hosts=frozenset({"localhost"}), needs_token_to_read=False, now_s=lambda: 0.0
    )
    client = TestClient(app, base_url=ORIGIN)
    codes = [client.get("/static/icon.svg").status_code for _ in range(BURST + 5)]
    assert codes == [200] * BURST + [429] * 5
