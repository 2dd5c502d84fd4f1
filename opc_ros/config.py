"""Converts documents into frozen dataclasses; an unknown, missing or ill-typed key fails with a line that names it."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Hashable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from opc_ros.documents import MAX_YAML_BYTES, parse_yaml, read_bytes, shorten
from opc_ros.errors import ConfigError, OpcError

T = TypeVar("T")

_SCALARS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}


def load_config(path: Path | str, kind: type[T]) -> T:
    """Load a YAML file into a dataclass: every key needs a field, and every field without default needs a key."""
    path = Path(path)
    data = read_bytes(path, limit=MAX_YAML_BYTES)
    return parse_config(parse_yaml(data, where=str(path)), kind, where=str(path))


def described(default: Any, meaning: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field with a description; numbers may have a range."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "low": low, "high": high})


def parse_config(document: object, kind: type[T], *, where: str, error: type[OpcError] = ConfigError) -> T:
    """Convert a parsed document into a dataclass; `where` begins every error message, raised as `error`."""
    try:
        return typing.cast(T, _convert(document, kind))
    except _Mismatch as mismatch:
        raise error(f"{where}{mismatch.place}: {mismatch.complaint}") from mismatch.__cause__


class _Mismatch(Exception):
    """A value of the wrong type; its location is completed while the exception travels up."""

    def __init__(self, complaint: str) -> None:
        super().__init__(complaint)
        self.complaint = complaint
        self.place = ""

    def within(self, place: str) -> _Mismatch:
        self.place = place + self.place
        return self


def _convert(value: object, kind: Any) -> Any:
    if kind in _SCALARS:
        return _convert_scalar(value, kind)
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, kind)
    if origin is typing.Literal:
        if not any(value == choice and type(value) is type(choice) for choice in get_args(kind)):
            raise _Mismatch(f"got {_describe(value)}, expected one of {', '.join(map(repr, get_args(kind)))}")
        return value
    if origin is tuple:
        return _convert_tuple(value, get_args(kind))
    if origin is dict:
        return _convert_dict(value, get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _convert_dataclass(value, kind)
    if issubclass(kind, StrEnum):
        return _convert_word(value, kind)
    return _convert_scalar(value, kind)


def _convert_word(value: object, kind: type[StrEnum]) -> StrEnum:
    if not isinstance(value, str) or value not in list(kind):
        raise _Mismatch(f"got {_describe(value)}, expected one of {', '.join(map(repr, map(str, kind)))}")
    return kind(value)


def _convert_union(value: object, kind: Any) -> Any:
    choices = get_args(kind)
    if value is None and type(None) in choices:
        return None
    complaints = []
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _convert(value, choice)
        except _Mismatch as mismatch:
            complaints.append(mismatch)
    raise complaints[0]


def _convert_tuple(value: object, choices: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _Mismatch(f"got {_describe(value)}, expected a list")
    if len(choices) == 2 and choices[1] is Ellipsis:
        choices = (choices[0],) * len(value)
    if len(choices) != len(value):
        raise _Mismatch(f"list has {len(value)} entries, expected {len(choices)}")
    items = []
    for index, (item, kind) in enumerate(zip(value, choices, strict=True)):
        try:
            items.append(_convert(item, kind))
        except _Mismatch as mismatch:
            raise mismatch.within(f"[{index}]") from mismatch.__cause__
    return tuple(items)


def _convert_dict(value: object, kinds: tuple[Any, ...]) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _Mismatch(f"got {_describe(value)}, expected keys with values")
    key_kind, value_kind = kinds
    found = {}
    for key, item in value.items():
        try:
            found[_convert(key, key_kind)] = _convert(item, value_kind)
        except _Mismatch as mismatch:
            raise mismatch.within(f": {shorten(str(key))}") from mismatch.__cause__
    return found


def _convert_dataclass(value: object, kind: Any) -> Any:
    if not isinstance(value, dict):
        raise _Mismatch(f"got {_describe(value)}, expected keys with values")
    fields = _fields(kind)
    for key in value:
        if key not in fields:
            raise _Mismatch(f"unknown key {shorten(repr(key))}, expected one of {', '.join(fields)}")
    for name, (field, _) in fields.items():
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if is_required and name not in value:
            raise _Mismatch(f"key {name!r} is missing")
    arguments = {}
    for name, item in value.items():
        field, hint = fields[name]
        try:
            arguments[name] = _convert(item, hint)
            _check_range(arguments[name], field)
        except _Mismatch as mismatch:
            raise mismatch.within(f": {name}") from mismatch.__cause__
    try:
        return kind(**arguments)
    except (ValueError, ArithmeticError, OpcError) as error:
        raise _Mismatch(shorten(" ".join(str(error).split()), 500)) from error


@functools.cache
def _fields(kind: Hashable) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {
        field.name: (field, hints[field.name]) for field in dataclasses.fields(typing.cast(Any, kind)) if field.init
    }


def _check_range(value: object, field: dataclasses.Field[Any]) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if (low is None and high is None) or not isinstance(value, int | float):
        return
    if not ((low is None or value >= low) and (high is None or value <= high)):
        expected = " ".join(f"{word} {bound:g}" for word, bound in (("from", low), ("to", high)) if bound is not None)
        raise _Mismatch(f"got {value!r}, expected {expected}")


def _convert_scalar(value: object, kind: type) -> Any:
    if kind is float and type(value) in (int, float):
        return _convert_number(typing.cast(float, value))
    if kind is Path and isinstance(value, str):
        return _convert_path(value)
    if isinstance(value, bool) and kind is not bool:
        raise _Mismatch(f"got {value!r}, expected {_name(kind)}")
    if not isinstance(value, kind):
        raise _Mismatch(f"got {_describe(value)}, expected {_name(kind)}")
    return value


def _convert_number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Mismatch(f"got {_describe(value)}, expected a finite number")
    return number


def _convert_path(value: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise _Mismatch(f"got {_describe(value)}: {error}") from error


def _describe(value: object) -> str:
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else shorten(repr(value))


def _name(kind: Any) -> str:
    return _SCALARS.get(kind, str(kind))
