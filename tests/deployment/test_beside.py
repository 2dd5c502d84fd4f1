"""Computation beside a loop that must not wait."""

from __future__ import annotations

import threading

import pytest

from opc_ros.deployment.beside import Beside
from opc_ros.errors import OpcError


def test_who_must_not_wait_gets_the_answer_before_until_the_new_one_is_ready() -> None:
    beside: Beside[int, str] = Beside("test")
    assert beside.ask(1, lambda: "one") == (1, "one")
    go_on = threading.Event()

    def slow() -> str:
        go_on.wait()
        return "two"

    assert beside.ask(2, slow, patience_s=0.0) == (1, "one")
    assert beside.ask(3, lambda: "three", patience_s=0.0) == (1, "one")  # one question at a time
    go_on.set()
    assert beside.ask(3, lambda: "three") == (3, "three")
    beside.close()


def test_before_the_first_answer_there_is_none() -> None:
    beside: Beside[int, str] = Beside("test")
    go_on = threading.Event()
    assert beside.ask(1, lambda: str(go_on.wait()), patience_s=0.0) is None
    go_on.set()
    assert beside.ask(1, lambda: "again") == (1, "True")
    beside.close()


def test_an_error_is_raised_once_and_the_question_can_be_asked_again() -> None:
    beside: Beside[int, str] = Beside("test")

    def fail() -> str:
        raise OpcError("no")

    with pytest.raises(OpcError, match="no"):
        beside.ask(1, fail)
    assert beside.ask(1, lambda: "yes") == (1, "yes")
    beside.close()
