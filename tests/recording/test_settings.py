from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from opc_ros.config import load_config
from opc_ros.errors import ConfigError
from opc_ros.recording.settings import RecorderSettings

CONFIG = Path(__file__).parents[2] / "config" / "recorder.yaml"


def test_the_shipped_file_spells_out_every_setting_with_its_default() -> None:
    assert load_config(CONFIG, RecorderSettings) == RecorderSettings()
    keys = set(yaml.safe_load(CONFIG.read_text()))
    assert keys == {field.name for field in dataclasses.fields(RecorderSettings)}


def test_every_setting_has_a_reader() -> None:
    package = Path(__file__).parents[2] / "opc_ros"
    files = [
        *(package / "recording").glob("*.py"),
        *(package / "ros" / name for name in ("recorder_node.py", "wire_streams.py")),
    ]
    code = "".join(path.read_text() for path in files)
    assert [f.name for f in dataclasses.fields(RecorderSettings) if f"ettings.{f.name}" not in code] == [
        "camera_info_topic",  # a method explains what an empty one means
        "max_displacement_m",
        "max_rotation_rad",
    ]
    assert RecorderSettings(max_displacement_m=0.01, max_rotation_rad=0.2).bounds.displacement_m == 0.01


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("frame_bufer_s: 3", "unknown key 'frame_bufer_s'"),
        ("queue_capacity: 0", "queue_capacity: got 0, expected from 1"),
        ("queue_capacity: many", "queue_capacity: got 'many', expected a whole number"),
        ("image_kind: theora", "image_kind: got 'theora', expected one of 'compressed', 'raw'"),
        ("held_from_m: 0.2", "held_from_m 0.2 is above held_to_m 0.075"),
        ("button_labeller: ''", "button_labeller is empty"),
        ("min_frame_rate_hz: .nan", "line 1: min_frame_rate_hz: got .nan, expected a finite number"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "recorder.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, RecorderSettings)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
