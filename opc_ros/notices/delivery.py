"""Delivers notices on a separate thread, so that a slow or missing channel blocks nothing."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence

from opc_ros.notices.channels import Channel, NoticeNotSent
from opc_ros.notices.notice import Notice

WAITING = 200  # notices kept while channels do not answer
TRIES = 5


class Delivery:
    """Sends each notice to every channel, in order, and retries for a while if one fails."""

    def __init__(
        self, channels: Sequence[Channel], complain: Callable[[str], None], *, first_wait_s: float = 1.0
    ) -> None:
        self._channels = channels
        self._complain = complain
        self._first_wait_s = first_wait_s
        self._ended = threading.Event()
        self._waiting: queue.Queue[Notice | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
        self._thread.start()

    def put(self, notice: Notice) -> None:
        try:
            self._waiting.put_nowait(notice)
        except queue.Full:
            self._complain(f"{WAITING} notices are waiting already; not sent: {notice.title}")

    def close(self, timeout_s: float = 2.0) -> None:
        """Try pending notices once more, briefly."""
        self._ended.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None:
            for channel in self._channels:
                self._send(channel, notice)

    def _send(self, channel: Channel, notice: Notice) -> None:
        for number in range(TRIES):
            try:
                channel.send(notice)
                return
            except Exception as error:  # no answer from a channel, however odd, may keep later notices from being sent
                if not isinstance(error, NoticeNotSent):
                    error = NoticeNotSent(f"{channel.describe()}: {type(error).__name__}")
                if number == TRIES - 1 or self._ended.is_set():
                    self._complain(f"{error}; not sent: {notice.title}")
                    return
                self._ended.wait(self._first_wait_s * 2**number)
