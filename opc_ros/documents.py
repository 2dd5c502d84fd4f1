"""The one strict reader of YAML and JSON, whoever wrote it, and the one writer of canonical JSON.

Anything wrong becomes one line with what was got and what was expected: no number is NaN, infinite or wider than 64
bits, no key occurs twice, and no nesting, text or file is larger than a person or one of our programs would make it.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import yaml

from opc_ros.errors import ConfigError, OpcError

MAX_DEPTH = 64
MAX_YAML_BYTES = 256 * 1024  # takes the parser about two seconds
MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_WHOLE = 2**64  # the range of messages and databases

# Created once, because very many small documents are written and checked.
_ASCII_JSON, _TEXT_JSON = (
    json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=is_ascii, allow_nan=False)
    for is_ascii in (True, False)
)
_SHOWN = 80  # characters of a value in an error message
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")


def read_bytes(
    path: Path, *, limit: int = MAX_JSON_BYTES, error: type[OpcError] = ConfigError, follows_links: bool = True
) -> bytes:
    """Read a file; one that is unreadable, or larger than it can reasonably be, fails."""
    try:
        # Do not block forever if the path is a pipe or a device.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW)
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise error(f"{path}: not a regular file")
            data = file.read(limit + 1)
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL in it
        if not follows_links and path.is_symlink():
            raise error(f"{path}: is a link, expected the file itself; `cp -rL` copies what links lead to") from problem
        raise error(f"{path}: {getattr(problem, 'strerror', None) or problem}") from problem
    if len(data) > limit:
        raise error(f"{path}: larger than {limit} bytes, expected at most that")
    return data


def parse_yaml(data: bytes, *, where: str, error: type[OpcError] = ConfigError) -> Any:
    """The document in a YAML file's bytes; an empty file has no keys. Aliases and custom tags are refused."""
    if len(data) > MAX_YAML_BYTES:
        raise error(f"{where}: {len(data)} bytes, expected at most {MAX_YAML_BYTES}")
    try:
        document = yaml.load(data.decode("utf-8"), Loader=_StrictLoader)
    except UnicodeDecodeError as problem:
        raise error(f"{where}: not UTF-8 text at byte {problem.start}") from problem
    except yaml.YAMLError as problem:
        raise error(f"{where}: not YAML: {shorten(' '.join(str(problem).split()), 300)}") from problem
    return document if document is not None else {}


def parse_json(data: bytes | str, *, where: str, error: type[OpcError] = ConfigError) -> Any:
    """The value in a JSON text."""
    try:
        raw = data.encode("utf-8") if isinstance(data, str) else data
        if len(raw) > MAX_JSON_BYTES:
            raise error(f"{where}: {len(raw)} bytes, expected at most {MAX_JSON_BYTES}")
        value = _JSON.decode(raw.decode("utf-8"))
        # Only walk what could be wrong: most documents are small, flat and without escapes.
        if b"\\u" in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            _check_tree(value, 0)
    except UnicodeError as problem:
        raise error(f"{where}: not UTF-8 text at character {getattr(problem, 'start', 0)}") from problem
    except (ValueError, RecursionError) as problem:
        told = f"nested deeper than {MAX_DEPTH}" if isinstance(problem, RecursionError) else str(problem)
        raise error(f"{where}: not JSON: {shorten(told, 300)}") from problem
    return value


def canonical_json(value: object, *, is_ascii: bool = False) -> str:
    """A unique spelling of each value, so equal content has equal bytes: sorted keys, no spaces, shortest numbers.

    Each file format has made one choice for good: non-ASCII text as it is, or escaped.
    """
    return (_ASCII_JSON if is_ascii else _TEXT_JSON).encode(value)


def shorten(text: str, most: int = _SHOWN) -> str:
    """Shorten a text, so that an error message about a long value stays readable."""
    return text if len(text) <= most else f"{text[: most - 20]}... ({len(text)} characters)"


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader for plain values only: a date stays text, and anything that could lose data or blow up fails."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as its base declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAG) in _PLAIN_TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors: ClassVar = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._keys: list[str] = []  # leading to the value being read

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # A few nested aliases can stand for more text than fits into any memory.
            self._refuse(self.peek_event(), "uses an alias (*name), expected every value written out")  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(self.peek_event(), f"is nested deeper than {MAX_DEPTH}")  # type: ignore[no-untyped-call]
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_plain(self, node: yaml.Node) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        if kind == "map" and isinstance(node, yaml.MappingNode):
            return self._construct_keys(node)
        if kind == "seq" and isinstance(node, yaml.SequenceNode):
            return [self.construct_object(item, deep=True) for item in node.value]
        if not isinstance(node, yaml.ScalarNode) or kind not in _PLAIN_TAGS:
            self._refuse(node, f"has the tag {node.tag!r}, expected plain text, numbers, lists and keys")
        if kind in ("int", "float"):
            return self._construct_number(node, kind)
        if kind == "str" and "\0" in node.value:
            self._refuse(node, "holds a NUL character")
        try:
            return getattr(self, f"construct_yaml_{kind}")(node)
        except KeyError:
            self._refuse(node, f"got {shorten(node.value)!r}, expected {kind}")

    def _construct_keys(self, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "key is not a plain value")
            key = self.construct_object(key_node, deep=True)
            if key in found:
                raise yaml.YAMLError(f"key {key!r} given twice, again in line {key_node.start_mark.line + 1}")
            self._keys.append(shorten(str(key)))
            found[key] = self.construct_object(value_node, deep=True)
            self._keys.pop()
        return found

    def _construct_number(self, node: yaml.ScalarNode, kind: str) -> int | float:
        try:
            number: int | float = getattr(self, f"construct_yaml_{kind}")(node)
        except (ValueError, IndexError, OverflowError):
            self._refuse(node, f"got {shorten(node.value)!r}, expected a number of at most 20 digits")
        if isinstance(number, float) and not math.isfinite(number):
            self._refuse(node, f"got {shorten(node.value)}, expected a finite number")
        if abs(number) >= MAX_WHOLE and isinstance(number, int):
            self._refuse(node, f"got {shorten(node.value)}, expected a number of at most 20 digits")
        return number

    def _refuse(self, place: yaml.Node | yaml.Event, complaint: str) -> NoReturn:
        mark = place.start_mark
        keys = "".join(f": {key}" for key in self._keys)
        raise yaml.YAMLError(f"line {mark.line + 1 if mark else 0}{keys}: {complaint}")


_StrictLoader.yaml_constructors = {None: _StrictLoader.construct_plain}


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"got {shorten(text)}, expected a finite number")
    return number


def _parse_whole(text: str) -> int:
    if len(text) > 21 or abs(number := int(text)) >= MAX_WHOLE:
        raise ValueError(f"got {shorten(text)}, expected a number of at most 20 digits")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"got {text}, expected a finite number")


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} given twice")
    return found


_JSON = json.JSONDecoder(
    parse_float=_parse_finite, parse_int=_parse_whole, parse_constant=_refuse_constant, object_pairs_hook=_keys_once
)


def _check_tree(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        value.encode("utf-8")
        if "\0" in value:
            raise ValueError("text holds a NUL character")
    elif isinstance(value, list):
        for item in value:
            _check_tree(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_tree(key, depth + 1)
            _check_tree(item, depth + 1)
