"""Fill any ROS message with values that differ from field to field."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

WHOLE = re.compile(r"u?int(8|16|32|64)|octet")
SEQUENCE = re.compile(r"sequence<(.+?)(?:, \d+)?>")
ARRAY = re.compile(r"(.+)\[(\d+)\]")


def fill(kind: type) -> Any:
    """A message of this kind; the same each time, in every process."""
    return _fill(kind, itertools.count(1))


def _fill(kind: type, numbers: Iterator[int]) -> Any:
    message = kind()
    for name, spelling in kind.get_fields_and_field_types().items():  # type: ignore[attr-defined]
        setattr(message, name, _value(spelling, numbers))
    return message


def _value(spelling: str, numbers: Iterator[int]) -> Any:
    if match := SEQUENCE.fullmatch(spelling):
        return [_value(match[1], numbers) for _ in range(3)]
    if match := ARRAY.fullmatch(spelling):
        return [_value(match[1], numbers) for _ in range(int(match[2]))]
    if spelling == "boolean":
        return next(numbers) % 2 == 1
    if WHOLE.fullmatch(spelling):
        return next(numbers) % 100
    if spelling in ("double", "float"):
        return next(numbers) + 0.5
    if spelling.startswith("string"):
        return f"text {next(numbers)}"
    package, name = spelling.split("/")
    return _fill(getattr(importlib.import_module(f"{package}.msg"), name), numbers)
