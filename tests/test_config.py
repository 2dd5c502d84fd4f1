"""Strict configuration loading."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from opc_ros.config import load_config, parse_config
from opc_ros.errors import ConfigError, StoreError


@dataclass(frozen=True, slots=True)
class Camera:
    topic: str
    rate_hz: float = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    name: str
    camera: Camera
    mode: Literal["twin", "hardware"] = "twin"
    limits: tuple[float, float] = (0.0, 1.0)
    robots: tuple[str, ...] = ()
    budgets: dict[str, int] = field(default_factory=dict)
    note: str | None = None

    def __post_init__(self) -> None:
        if self.limits[0] > self.limits[1]:
            raise ValueError(f"limits are {self.limits}, expected the smaller first")


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return load_config(path, Settings)


def test_whole_file_becomes_one_value(tmp_path: Path) -> None:
    text = """
    name: lab
    camera: {topic: /camera, rate_hz: 30}
    mode: hardware
    limits: [0, 2]
    robots: [arm1, arm2]
    budgets: {arm1: 5}
    """
    assert load(tmp_path, text) == Settings(
        name="lab",
        camera=Camera("/camera", 30.0),
        mode="hardware",
        limits=(0.0, 2.0),
        robots=("arm1", "arm2"),
        budgets={"arm1": 5},
    )


BASE = "name: lab\ncamera: {topic: /camera}\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (BASE + "colour: red", "settings.yaml: unknown key 'colour', expected one of name, camera"),
        ("name: lab", "settings.yaml: key 'camera' is missing"),
        ("name: lab\ncamera: {topics: /camera}", "settings.yaml: camera: unknown key 'topics'"),
        ("name: lab\ncamera: {topic: /c, rate_hz: fast}", "camera: rate_hz: got 'fast', expected a number"),
        ("name: 3\ncamera: {topic: /c}", "name: got 3, expected text"),
        ("name: lab\ncamera: {topic: /c, rate_hz: true}", "rate_hz: got True, expected a number"),
        (BASE + "mode: fast", "mode: got 'fast', expected one of 'twin', 'hardware'"),
        (BASE + "limits: [1]", "limits: list has 1 entries, expected 2"),
        (BASE + "limits: [2, 1]", r"settings.yaml: limits are \(2.0, 1.0\), expected the smaller first"),
        (BASE + "robots: [1]", r"robots\[0\]: got 1, expected text"),
        (BASE + "budgets: {arm1: many}", "budgets: arm1: got 'many', expected a whole number"),
        (BASE + "name: twice", "'name' given twice, again in line 3"),
        (BASE + "limits: [0, .inf]", "expected a finite number"),
        (BASE + f"budgets: {{arm1: {'9' * 5000}}}", "expected a number of at most 20 digits"),
        (BASE + "mode: 1", "mode: got 1, expected one of"),
        (BASE + f"mode: {'x' * 3000}", r"\.\.\. \(3002 characters\)"),
        ("name: [", "not YAML"),
        ("- a", "got a list, expected keys with values"),
        ("", "key 'name' is missing"),
    ],
)
def test_bad_file_names_file_and_key_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_number_that_is_not_finite_is_refused_wherever_it_comes_from() -> None:
    for number in (float("nan"), float("inf"), 10**400):
        with pytest.raises(StoreError, match=r"^message: rate_hz: got .*, expected a finite number"):
            parse_config({"topic": "/c", "rate_hz": number}, Camera, where="message", error=StoreError)


def test_missing_file_and_binary_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        load_config(tmp_path / "nowhere.yaml", Settings)
    (tmp_path / "binary.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text at byte 6"):
        load_config(tmp_path / "binary.yaml", Settings)
