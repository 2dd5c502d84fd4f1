"""Argument types that reject invalid values before anything starts."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole_number(low: int, high: int | None = None) -> Callable[[str], int]:
    """An argparse type: a whole number of at least `low` and at most `high`."""

    def parse(text: str) -> int:
        is_number = text.removeprefix("-").isdecimal()
        if not is_number or int(text) < low or (high is not None and int(text) > high):
            wanted = f"from {low}" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number {wanted}")
        return int(text)

    return parse


def number(low: float, high: float = math.inf) -> Callable[[str], float]:
    """An argparse type: a finite number within inclusive bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            wanted = f"{low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"{text!r}, expected a number {wanted}")
        return value

    return parse


def some_text(text: str) -> str:
    """An argparse type: text that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty, expected some text")
    return text
