"""The opc command's edges: usage, errors, speed of help."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from opc_ros.cli.main import VERBS, build_parser, main
from opc_ros.docs.generate import walk_parsers

HEAVY = ("numpy", "cv2", "torch", "pybullet", "rclpy", "scipy", "matplotlib", "rich", "mcap", "ray")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom opc_ros.cli.main import build_parser\nbuild_parser().format_help()\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_every_task_below_a_verb_says_what_it_does_with_an_example_of_its_own() -> None:
    for words, parser in walk_parsers(build_parser(), "opc"):
        assert parser.description, words
        assert f"  {words} " in f"{parser.epilog} ".replace("\n", " \n"), words


def test_wrong_usage_is_exit_2() -> None:
    for words in ([], ["nonsense"], ["up"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2


def test_error_is_one_line_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "nope"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("opc: no system is called 'nope'")
    assert captured.err.count("\n") == 1


def test_dry_run_prints_the_commands_without_running_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "scripted", "robots:=left", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("__ns:=/left" in line for line in lines)


def test_doctor_refuses_an_impossible_domain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "seven")
    assert main(["doctor"]) == 1
    assert "ROS_DOMAIN_ID is 'seven'" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert re.fullmatch(r"opc_ros \d+\.\d+\.\d+(\.dev\d+)?, Python 3\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete"), ("zsh", "#compdef opc"), ("fish", "complete -c opc")]
)
def test_shells_learn_to_complete_verbs(shell: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert words in printed
    assert "candidate" in printed
