"""When something was measured, from another clock's timestamps and the time of arrival."""

from __future__ import annotations

import pytest

from opc_ros.arms.measured_time import KEPT_S, MeasuredTime

SECOND_NS = 1_000_000_000
HOUR_S = 3600


def test_a_message_that_waited_was_measured_that_much_earlier() -> None:
    times = MeasuredTime()
    # The other clock is an hour ahead, and a message takes 5 ms.
    assert times.tell(100.005, (HOUR_S + 100) * SECOND_NS) == pytest.approx(100.005)
    # Stamped 0.2 s later, but arrived 0.26 s later: it waited for 0.06 s.
    assert times.tell(100.265, round((HOUR_S + 100.2) * SECOND_NS)) == pytest.approx(100.205, abs=1e-5)


def test_a_message_faster_than_all_before_did_not_wait() -> None:
    times = MeasuredTime()
    times.tell(100.05, 100 * SECOND_NS)
    assert times.tell(100.21, round(100.2 * SECOND_NS)) == pytest.approx(100.21)
    assert times.tell(100.35, round(100.3 * SECOND_NS)) == pytest.approx(100.31, abs=1e-5)


def test_a_clock_that_was_put_back_is_believed_again_after_a_while() -> None:
    times = MeasuredTime()
    times.tell(100.0, 100 * SECOND_NS)
    assert times.tell(100.1, 100 * SECOND_NS) == pytest.approx(100.0, abs=1e-5)
    later_s = 100.2 + KEPT_S
    assert times.tell(later_s, round((later_s - 0.1) * SECOND_NS)) == pytest.approx(later_s)


def test_without_a_timestamp_it_is_the_time_of_arrival() -> None:
    times = MeasuredTime()
    assert [times.tell(seconds, 0) for seconds in (100.0, 101.0)] == [100.0, 101.0]
