"""Every command and every import that a page prints exists, with the options it is printed with."""

from __future__ import annotations

import ast
import importlib.util
import re

import pytest

from opc_ros.cli.main import VERBS, build_parser, main
from tests.docs.printed import Block, find_blocks, find_commands
from tests.tree import ROOT, tracked

BLOCKS = [block for page in tracked("*.md") for block in find_blocks(page)]
PARSER = build_parser()
OURS = ("opc_ros", "sim_bridge", "tests")


def refuse(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The parser's complaint about a command; empty if it accepts it."""
    try:
        PARSER.parse_args(words)
    except SystemExit as end:
        return capsys.readouterr().err.strip().splitlines()[-1] if end.code else ""
    return ""


def test_every_printed_opc_command_is_one_that_opc_takes(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {(block.page, tuple(words)) for block in BLOCKS for words in find_commands(block, "opc")}
    assert len(printed) > 100
    wrong = {f"{page}: opc {' '.join(words)}": said for page, words in printed if (said := refuse([*words], capsys))}
    assert wrong == {}


def test_a_wrong_option_and_a_verb_that_is_no_more_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    page = "x\n```\nopc ledger show            # gone\nopc score --ledger q.sqlite | tail\n$ opc score --json\n```\n"
    (found,) = (Block("x.md", *match) for match in re.findall(r"```(\w*)\n(.*?)```", page, flags=re.DOTALL))
    commands = list(find_commands(found, "opc"))
    assert commands == [["ledger", "show"], ["score", "--ledger", "q.sqlite"], ["score", "--json"]]
    assert [bool(refuse(words, capsys)) for words in commands] == [True, True, False]


def test_verbs_named_in_sentences_exist() -> None:
    for page in tracked("*.md"):
        if page != "CHANGELOG.md":  # which names things that no longer exist
            text = (ROOT / page).read_text(encoding="utf-8")
            for verb in re.findall(r"`opc ([a-z]+)[^`]*`", text):
                assert verb in VERBS or verb == "release", f"{page}: `opc {verb}`"


def test_systems_are_brought_up_with_arguments_they_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    printed = {tuple(words) for block in BLOCKS for words in find_commands(block, "opc") if words[:1] == ["up"]}
    for words in printed:
        if len(words) < 2 or words[1].startswith("-") or "..." in words:
            continue
        # A reader's own lab and arm files are copies of those that ship.
        wanted = [word.replace("my_", "") for word in words if word != "--dry-run"]
        assert main([*wanted, "--dry-run"]) == 0, (words, capsys.readouterr().err)


def test_printed_make_targets_exist() -> None:
    known = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for block in BLOCKS:
        for words in find_commands(block, "make"):
            targets = [word for word in words if "=" not in word and not word.startswith("-")]
            assert set(targets) <= known, (block.page, words)


def test_printed_modules_can_be_run() -> None:
    for block in BLOCKS:
        for program in ("python", "python3"):
            for words in find_commands(block, program):
                if words[:1] == ["-m"] and words[1].partition(".")[0] in OURS:
                    assert importlib.util.find_spec(words[1]) is not None, (block.page, words)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda block: block.page
)
def test_python_on_a_page_parses_and_imports_what_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            module = importlib.import_module(str(node.module))
            for name in node.names:
                assert hasattr(module, name.name), f"{block.page}: {node.module} has no {name.name}"
