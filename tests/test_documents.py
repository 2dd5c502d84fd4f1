"""The one reader of YAML and JSON: any error is one line, and nothing strange gets in."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opc_ros.documents import MAX_YAML_BYTES, canonical_json, parse_json, parse_yaml, read_bytes
from opc_ros.errors import ConfigError, OpcError, RankingError

STRANGE_YAML = [
    ("a: !!int abc", "line 1: a: got 'abc', expected a number"),
    ("a: !!float x", "line 1: a: got 'x', expected a number"),
    ("a: !!bool perhaps", "line 1: a: got 'perhaps', expected bool"),
    ("a: !!timestamp 2020-13-45", "line 1: a: has the tag"),
    ("a: !!binary ====", "line 1: a: has the tag"),
    ("a: !!python/object:os.system x", "line 1: a: has the tag"),
    ("a: !!map [1]", "line 1: a: has the tag"),
    ("b: 1\na: .nan", "line 2: a: got .nan, expected a finite number"),
    ("a: -.inf", "line 1: a: got -.inf, expected a finite number"),
    ("a: 1.0e+999", "line 1: a: got 1.0e+999, expected a finite number"),
    (f"a: {'9' * 5000}", "expected a number of at most 20 digits"),
    (f"a: {'9' * 4000}", "expected a number of at most 20 digits"),
    ("a: 18446744073709551616", "expected a number of at most 20 digits"),
    ("a: " + "[" * 5000 + "]" * 5000, "nested deeper than 64"),
    ("- " * 3000 + "x", "nested deeper than 64"),
    ("a: &x [1]\nb: *x", "line 2: uses an alias"),
    ('a: "x\\0y"', "holds a NUL character"),
    ("? [1, 2]\n: 3", "key is not a plain value"),
    ("a: 1\na: 2", "key 'a' given twice, again in line 2"),
    ("a: 1\n---\nb: 2", "not YAML"),
    ("a: \x07", "not YAML"),
]


@pytest.mark.parametrize(("text", "complaint"), STRANGE_YAML)
def test_strange_yaml_is_refused_in_one_line_that_names_the_file(text: str, complaint: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"^gate\.yaml: ") as caught:
        parse_yaml(text.encode(), where="gate.yaml")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b'{"a": NaN}', "got NaN, expected a finite number"),
        (b'{"a": -Infinity}', "got -Infinity, expected a finite number"),
        (b'{"a": 1e999}', "got 1e999, expected a finite number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "expected a number of at most 20 digits"),
        (b"18446744073709551616", "expected a number of at most 20 digits"),
        (b"[" * 100_000, "nested deeper than 64"),
        (b"[" * 70 + b"]" * 70, "nested deeper than 64"),
        (b'{"a": 1, "a": 2}', "key 'a' given twice"),
        (b'"\\ud800"', "not UTF-8"),
        (b'"\\u0000"', "holds a NUL"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
    ],
)
def test_strange_json_is_refused_in_one_line_of_the_callers_kind(text: bytes, complaint: str) -> None:
    with pytest.raises(RankingError, match=r"^ranking\.json: ") as caught:
        parse_json(text, where="ranking.json", error=RankingError)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_date_is_text_and_plain_values_are_read_as_ever() -> None:
    text = b"on: 2020-13-45\nday: 2020-01-02\nn: 3\nx: 0.5\nflag: true\nnone: ~\nlist: [1, a]\nkeys: {b: 1}\n"
    found = parse_yaml(text, where="x")
    assert found == {
        True: "2020-13-45",  # YAML 1.1 reads `on` as true
        "day": "2020-01-02",
        "n": 3,
        "x": 0.5,
        "flag": True,
        "none": None,
        "list": [1, "a"],
        "keys": {"b": 1},
    }
    assert parse_yaml(b"", where="x") == {}
    assert parse_yaml(b"18446744073709551615", where="x") == 2**64 - 1


def test_what_is_too_large_or_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"expected at most {MAX_YAML_BYTES}"):
        parse_yaml(b"a" * (MAX_YAML_BYTES + 1), where="x")
    (tmp_path / "large").write_bytes(b"12345")
    assert read_bytes(tmp_path / "large", limit=5) == b"12345"
    with pytest.raises(ConfigError, match="larger than 4 bytes"):
        read_bytes(tmp_path / "large", limit=4)
    with pytest.raises(ConfigError, match="Is a directory"):
        read_bytes(tmp_path)
    with pytest.raises(ConfigError, match="null byte"):
        read_bytes(tmp_path / "a\0b")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abä", max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES, st.booleans())
def test_canonical_json_comes_back_whole_and_has_one_spelling(value: object, is_ascii: bool) -> None:
    text = canonical_json(value, is_ascii=is_ascii)
    assert parse_json(text, where="x") == value
    assert canonical_json(json.loads(json.dumps(value, indent=3)), is_ascii=is_ascii) == text
    assert text.isascii() or not is_ascii


def test_canonical_json_keeps_the_bytes_that_digests_and_signatures_rest_on() -> None:
    value = {"b": [1, 0.1, True, None], "a": "ä"}
    assert canonical_json(value) == '{"a":"ä","b":[1,0.1,true,null]}'
    assert canonical_json(value, is_ascii=True) == '{"a":"\\u00e4","b":[1,0.1,true,null]}'
    with pytest.raises(ValueError, match="Out of range float"):
        canonical_json(float("nan"))


@given(st.binary(max_size=300))
def test_noise_is_a_value_or_one_line(data: bytes) -> None:
    for parse in (parse_yaml, parse_json):
        complaint = ""
        try:
            parse(data, where="x")
        except OpcError as error:
            complaint = str(error)
        assert "\n" not in complaint


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "candidate.yaml")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_bytes(tmp_path / "candidate.yaml")
