"""What the demo shows on a terminal and in a file."""

from __future__ import annotations

import io

from opc_ros.demo import screen as demo_screen
from opc_ros.demo.screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_lines_are_set_in_and_nothing_is_lost() -> None:
    out = io.StringIO()
    words = " ".join(f"word{number}" for number in range(40))
    Screen(out).line(f"  pass     {words}")
    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= demo_screen.WIDTH
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert out.getvalue().split() == ["pass", *words.split()]


def test_a_file_gets_progress_lines_only_now_and_then() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.head("1. Begin")
    for number in range(100):
        screen.waiting(f"{number} of 100")
    assert out.getvalue().splitlines() == ["", "[0:00] 1. Begin"]


def test_a_terminal_has_one_line_that_changes_and_is_gone_in_the_end() -> None:
    out = Terminal()
    screen = Screen(out)
    screen.waiting("3 of 48")
    screen.line("done")
    assert out.getvalue() == "\r\033[K\033[36m  ... 3 of 48\033[0m\r\033[Kdone\n"
