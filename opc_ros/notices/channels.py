"""Where notices go: a webhook of any kind, one in Slack's format, or this desktop."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol
from urllib.parse import urlsplit

from opc_ros.errors import ConfigError, OpcError
from opc_ros.notices.notice import Notice

TIMEOUT_S = 10.0


class NoticeNotSent(OpcError):
    """A channel rejected a notice; it may accept it later."""


class Channel(Protocol):
    """A place where people look."""

    def send(self, notice: Notice) -> None:
        """Send a notice, or raise NoticeNotSent."""
        ...

    def describe(self) -> str: ...


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: whoever answers a webhook must not send this machine to an address that only it can reach."""

    def redirect_request(self, *about: Any) -> None:
        """None: the redirect itself is the answer, and counts as an error."""


_OPENER = urllib.request.build_opener(_StayHere)


class Webhook:
    """POSTs each notice as JSON; the address is a secret, so it is never printed."""

    def __init__(self, url: str, *, lab: str, is_slack: bool = False) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("webhook: expected an address that begins with https:// or http://")
        self._url = url
        self._host = parts.hostname
        self._lab = lab
        self._is_slack = is_slack

    def send(self, notice: Notice) -> None:
        body = json.dumps(to_slack(notice, self._lab) if self._is_slack else to_json(notice, self._lab)).encode()
        request = urllib.request.Request(self._url, body, {"content-type": "application/json"})
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S):
                pass
        except urllib.error.HTTPError as error:
            raise NoticeNotSent(f"webhook at {self._host} answered {error.code}") from None
        except (http.client.HTTPException, ValueError) as error:  # its text may contain the address
            raise NoticeNotSent(f"webhook at {self._host}: {type(error).__name__}") from None
        except OSError as error:
            raise NoticeNotSent(f"webhook at {self._host}: {getattr(error, 'reason', None) or error}") from None

    def describe(self) -> str:
        return f"a {'Slack' if self._is_slack else 'JSON'} webhook at {self._host}"


class Desktop:
    """The current user's desktop, through notify-send."""

    def __init__(self) -> None:
        program = shutil.which("notify-send")
        if program is None:
            raise ConfigError("desktop: notify-send is not installed: apt-get install libnotify-bin")
        self._program = program

    def send(self, notice: Notice) -> None:
        urgency = "critical" if notice.kind in ("arm_held", "halted") else "normal"
        # keeps text of ours or a candidate's from being read as an option
        command = [self._program, f"--urgency={urgency}", "--app-name=opc_ros", "--", notice.title, notice.text]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise NoticeNotSent(f"desktop: {error}") from None

    def describe(self) -> str:
        return "this desktop"


def to_json(notice: Notice, lab: str) -> Mapping[str, object]:
    return {"format": "opc_ros.notice", "version": 1, "lab": lab, **asdict(notice)}


def to_slack(notice: Notice, lab: str) -> Mapping[str, object]:
    """Slack, Mattermost and Rocket.Chat show `text`; escaped, so that names are shown as they are."""
    escaped = [
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in (notice.title, notice.text)
    ]
    return {"text": f"*{escaped[0]}* ({lab})\n{escaped[1]}"}
