"""YAML files into frozen dataclasses: an unknown, missing or ill-typed key fails, naming file and key."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from opc_ros.errors import ConfigError

T = TypeVar("T")


def load_config(path: Path | str, kind: type[T]) -> T:
    """Read one YAML file as one dataclass; every key needs a field, and every field without default a key."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    return parse_config(parse_yaml(data, where=str(path)), kind, where=str(path))


def parse_yaml(data: bytes, *, where: str) -> object:
    """The document in a YAML file's bytes; a key given twice fails."""
    try:
        document = yaml.load(data.decode("utf-8"), Loader=_StrictLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 text at byte {error.start}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    return document if document is not None else {}


def described(default: Any, meaning: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field that says what it means; numbers may be given the range they have to lie in."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "low": low, "high": high})


def parse_config(document: object, kind: type[T], *, where: str) -> T:
    """Turn an already parsed document into a dataclass; `where` begins every complaint."""
    return typing.cast(T, _convert(document, kind, where))


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: one of the two would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            try:
                is_repeated = key in seen
            except TypeError:
                raise yaml.YAMLError(f"key in line {key_node.start_mark.line + 1} is not a plain value") from None
            if is_repeated:
                raise yaml.YAMLError(f"key {key!r} given twice, again in line {key_node.start_mark.line + 1}")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _convert(value: object, kind: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, kind, where)
    if origin is typing.Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{where}: got {value!r}, expected one of {', '.join(map(repr, get_args(kind)))}")
        return value
    if origin is tuple:
        return _convert_tuple(value, get_args(kind), where)
    if origin is dict:
        return _convert_dict(value, get_args(kind), where)
    if dataclasses.is_dataclass(kind):
        return _convert_dataclass(value, typing.cast(type, kind), where)
    return _convert_scalar(value, kind, where)


def _convert_union(value: object, kind: Any, where: str) -> Any:
    choices = get_args(kind)
    if value is None and type(None) in choices:
        return None
    complaints = []
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _convert(value, choice, where)
        except ConfigError as error:
            complaints.append(str(error))
    raise ConfigError(complaints[0])


def _convert_tuple(value: object, choices: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: got {_describe(value)}, expected a list")
    if len(choices) == 2 and choices[1] is Ellipsis:
        choices = (choices[0],) * len(value)
    if len(choices) != len(value):
        raise ConfigError(f"{where}: list has {len(value)} entries, expected {len(choices)}")
    return tuple(
        _convert(item, kind, f"{where}[{i}]") for i, (item, kind) in enumerate(zip(value, choices, strict=True))
    )


def _convert_dict(value: object, kinds: tuple[Any, ...], where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: got {_describe(value)}, expected keys with values")
    key_kind, value_kind = kinds
    return {_convert(k, key_kind, f"{where}: key"): _convert(v, value_kind, f"{where}: {k}") for k, v in value.items()}


def _convert_dataclass(value: object, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: got {_describe(value)}, expected keys with values")
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in value:
        if key not in fields:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(fields)}")
    for name, field in fields.items():
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if is_required and name not in value:
            raise ConfigError(f"{where}: key {name!r} is missing")
    arguments = {name: _convert(item, hints[name], f"{where}: {name}") for name, item in value.items()}
    for name, argument in arguments.items():
        _check_range(argument, fields[name], f"{where}: {name}")
    try:
        return kind(**arguments)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _check_range(value: object, field: dataclasses.Field, where: str) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if not isinstance(value, int | float) or (low is None and high is None):
        return
    if not ((low is None or value >= low) and (high is None or value <= high)):
        expected = " ".join(f"{word} {bound:g}" for word, bound in (("from", low), ("to", high)) if bound is not None)
        raise ConfigError(f"{where}: got {value!r}, expected {expected}")


def _convert_scalar(value: object, kind: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    if isinstance(value, bool) and kind is not bool:
        raise ConfigError(f"{where}: got {value!r}, expected {_name(kind)}")
    if not isinstance(value, kind):
        raise ConfigError(f"{where}: got {_describe(value)}, expected {_name(kind)}")
    return value


def _describe(value: object) -> str:
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)


def _name(kind: Any) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}.get(
        kind, str(kind)
    )
