"""The exception tree, and its drawing."""

from __future__ import annotations

import inspect

from opc_ros import errors


def test_the_drawing_shows_every_error_below_its_parent() -> None:
    drawn: dict[str, str] = {}
    ancestors: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        words = line.strip("│├└─ ").split()
        if not words or not hasattr(errors, words[0]):
            continue
        depth = (len(line) - len(line.lstrip("│├└─ ")) - 4) // 4
        ancestors = [*ancestors[:depth], words[0]]
        drawn[words[0]] = ancestors[-2] if depth else "Exception"
    real = {name: kind.__bases__[0].__name__ for name, kind in inspect.getmembers(errors, inspect.isclass)}
    assert drawn == real
