"""What a person sees while the demo runs: headings, lines, and what it is waiting for."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import TextIO

EVERY_S = 10.0  # interval of progress lines if the output is a file or a pipe
REDRAW_S = 0.2
WIDTH = 98
HANGING = 9


class Screen:
    """Lines that stay, and one that changes in place; without a terminal, that one is printed now and then."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_terminal = self._out.isatty()
        self._began_s = time.monotonic()
        self._told_s = 0.0
        self._is_drawn = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def head(self, text: str) -> None:
        self._print(f"\n{self._styled(f'[{_clock(self.elapsed_s)}] {text}', '1')}")
        self._told_s = time.monotonic()

    def line(self, text: str) -> None:
        """Print a line, wrapped if necessary, with indented continuation lines."""
        indent = " " * (len(text) - len(text.lstrip()) + HANGING)
        self._print("\n".join(textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)))
        self._told_s = time.monotonic()

    def lines(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.line(text)

    def hint(self, text: str) -> None:
        """Print a command to type."""
        self._print(self._styled(text, "2"))

    def waiting(self, text: str) -> None:
        """Show what is being waited for, with counts; call it as often as there is news."""
        now = time.monotonic()
        if now - self._told_s < (REDRAW_S if self._is_terminal else EVERY_S):
            return
        self._told_s = now
        if not self._is_terminal:
            self._print(f"  ... {text}")
            return
        width = shutil.get_terminal_size().columns - 1
        self._out.write("\r\033[K" + self._styled(f"  ... {text}"[:width], "36"))
        self._out.flush()
        self._is_drawn = True

    def clear(self) -> None:
        """Erase the changing line."""
        if self._is_drawn:
            self._out.write("\r\033[K")
            self._is_drawn = False

    def _print(self, text: str) -> None:
        self.clear()
        self._out.write(text + "\n")
        self._out.flush()

    def _styled(self, text: str, style: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self._is_terminal else text


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
