"""What is reported, what is not, and that it reaches a webhook."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from opc_ros.errors import ConfigError
from opc_ros.notices.channels import Desktop, NoticeNotSent, Webhook, to_slack
from opc_ros.notices.delivery import Delivery
from opc_ros.notices.notice import MOST_IN_QUIET, Notice, NoticeWatch
from tests.notices.receiver import receiving

NOTICE = Notice("champion", "quartet is the new champion", "the race for the arms ended")


def request(state: str, name: str = "quartet", request_id: str = "r1") -> dict[str, Any]:
    real = {"successes": 9, "trials": 11}
    return {"id": request_id, "name": name, "state": state, "requested_by": "ada", "reason": "", "real": real}


def deployment(*requests: dict[str, Any], champion: str = "", halted: str = "") -> dict[str, Any]:
    robots = [{"robot": "arm1", "halted_by": halted}]
    return {"champion": champion, "champion_name": champion, "requests": list(requests), "robots": robots}


def titles(watch: NoticeWatch, document: dict[str, Any]) -> list[str]:
    return [notice.title for notice in watch.see_deployment(document)]


def test_a_waiting_request_is_reported_once_even_if_it_waited_before_anybody_listened() -> None:
    watch = NoticeWatch(lambda: 0.0)
    waiting, done = request("waiting"), request("done", "trio", "r0")
    assert titles(watch, deployment(waiting, done)) == ["quartet waits for a person"]
    assert titles(watch, deployment(waiting, done)) == []
    assert titles(watch, deployment(request("queued"), done)) == []
    (ended,) = watch.see_deployment(deployment(request("done"), done))
    assert (ended.title, ended.text) == ("quartet: done", "9 of 11 on real arms")


def test_a_new_champion_and_a_halt_are_reported_but_not_earlier_ones() -> None:
    watch = NoticeWatch(lambda: 0.0)
    assert titles(watch, deployment(champion="trio", halted="ben")) == []
    assert titles(watch, deployment(champion="trio", halted="ben")) == []
    assert titles(watch, deployment(champion="quartet")) == ["quartet is the new champion"]
    assert titles(watch, deployment(champion="quartet", halted="ada")) == ["arm1: halted by ada"]


def test_a_burst_of_safety_events_is_reported_once_a_minute_and_clamping_never() -> None:
    now_s = 0.0
    watch = NoticeWatch(lambda: now_s)
    assert [notice.title for notice in watch.see_event("arm1", "watchdog", "silent")] == ["arm1: the arm was held"]
    assert list(watch.see_event("arm1", "watchdog", "silent")) == []
    assert len(list(watch.see_event("arm2", "watchdog", "silent"))) == 1
    assert len(list(watch.see_event("arm1", "stop", "red button"))) == 1
    assert list(watch.see_event("arm1", "clamped", "x")) == []
    now_s = 60.0
    assert len(list(watch.see_event("arm1", "watchdog", "silent"))) == 1


def test_a_webhook_gets_the_notice_as_json_also_where_it_first_refuses() -> None:
    complaints: list[str] = []
    with receiving(refusals=2) as receiver:
        delivery = Delivery([Webhook(receiver.url, lab="farm")], complaints.append, first_wait_s=0.01)
        delivery.put(NOTICE)
        assert receiver.came.acquire(timeout=30)
        delivery.close()
        assert receiver.posts == [
            {
                "format": "opc_ros.notice",
                "version": 1,
                "lab": "farm",
                "kind": "champion",
                "title": "quartet is the new champion",
                "text": "the race for the arms ended",
                "robot": "",
                "request_id": "",
            }
        ]
    assert complaints == []


def test_a_webhook_that_never_answers_is_named_without_its_secret_address() -> None:
    complaints: list[str] = []
    with receiving() as receiver:
        url = receiver.url
    delivery = Delivery([Webhook(url, lab="farm")], complaints.append, first_wait_s=0.001)
    delivery.put(NOTICE)
    delivery.close(timeout_s=30)
    (complaint,) = complaints
    assert "webhook at 127.0.0.1" in complaint
    assert "not sent: quartet is the new champion" in complaint
    assert "secret" not in complaint


def answer_once(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """An address that answers each connection with these bytes, and what arrived there."""
    came: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    end, _ = server.accept()
                    with end:
                        came.append(end.recv(65536))
                        end.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hooks/secret", came
        server.shutdown(socket.SHUT_RDWR)


def test_a_webhook_that_sends_us_elsewhere_is_not_followed() -> None:
    """Its answer could make this machine contact addresses that only it can reach."""
    for inner, came in answer_once(b"HTTP/1.0 200 OK\r\n\r\n"):
        moved = f"HTTP/1.0 302 Found\r\nLocation: {inner}\r\n\r\n".encode()
        for outer, _ in answer_once(moved):
            with pytest.raises(NoticeNotSent, match=r"webhook at 127.0.0.1 answered 302"):
                Webhook(outer, lab="farm").send(NOTICE)
        assert came == []


def test_a_webhook_that_speaks_no_http_ends_nobody_and_its_address_stays_secret() -> None:
    complaints: list[str] = []
    for url, came in answer_once(b"\x00garbage secret\r\n\r\n"):
        delivery = Delivery([Webhook(url, lab="farm"), Odd()], complaints.append, first_wait_s=0.001)
        delivery.put(NOTICE)
        delivery.put(NOTICE)
        delivery.close(timeout_s=30)
        assert len(came) >= 2
    assert len(complaints) == 4
    assert complaints[0].startswith("webhook at 127.0.0.1: BadStatusLine; not sent:")
    assert complaints[1].startswith("an odd one: ZeroDivisionError; not sent:")
    assert not any("secret" in complaint for complaint in complaints)
    with pytest.raises(NoticeNotSent, match=r"webhook at 127.0.0.1: InvalidURL") as caught:
        Webhook("http://127.0.0.1:9/hooks/sec ret", lab="farm").send(NOTICE)
    assert "ret" not in str(caught.value)


class Odd:
    """A channel that raises something unexpected."""

    def send(self, notice: Notice) -> None:
        raise ZeroDivisionError("secret")

    def describe(self) -> str:
        return "an odd one"


def test_made_up_robots_flood_nobodys_phone_and_long_words_are_cut() -> None:
    now_s = 0.0
    watch = NoticeWatch(lambda: now_s)
    told = [n for number in range(1000) for n in watch.see_event(f"arm{number}" * 100, "stop", "x" * 10**6)]
    assert len(told) == MOST_IN_QUIET
    assert max(len(notice.title) + len(notice.text) for notice in told) < 1200
    now_s = 60.0
    assert len(list(watch.see_event("arm1", "stop", "red button"))) == 1


def test_names_cannot_forge_slack_links() -> None:
    notice = Notice("request_waiting", "<https://evil|approve> & co", "x")
    assert to_slack(notice, "farm") == {"text": "*&lt;https://evil|approve&gt; &amp; co* (farm)\nx"}


def test_what_is_no_address_is_refused_without_being_printed() -> None:
    with pytest.raises(ConfigError, match="begins with https://") as caught:
        Webhook("ftp://secret.example.org", lab="farm")
    assert "secret" not in str(caught.value)


def test_a_desktop_gets_words_that_begin_with_a_dash_as_words(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    Desktop().send(Notice("arm_held", "--help", "the arm was held"))
    assert (tmp_path / "words").read_text().splitlines()[-3:] == ["--", "--help", "the arm was held"]
