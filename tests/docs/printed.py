"""The pages' code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.tree import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", flags=re.MULTILINE)
END_OF_COMMAND = ("|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "(", ")")


@dataclass(frozen=True, slots=True)
class Block:
    """One code block of a page."""

    page: str
    language: str
    text: str


def find_blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for language, inside in FENCE.findall(text):
        yield Block(page, language, inside)
    for inside in INDENTED.findall(FENCE.sub("\n", text)):
        yield Block(page, "", re.sub(r"^ {4}", "", inside, flags=re.MULTILINE))


def find_commands(block: Block, program: str) -> Iterator[list[str]]:
    """The words of every command of this program, without comments and shell redirections."""
    for line in block.text.replace("\\\n", " ").splitlines():
        printed, *_ = re.split(r" {3,}", re.sub(r"^\s*(\$ )?", "", line))  # help explains examples after spaces
        lexer = shlex.shlex(printed, posix=True, punctuation_chars="|&;<>()")
        lexer.commenters, lexer.whitespace_split = "#", True
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation mark in printed output
        while words and re.fullmatch(r"[A-Z_]+=\S*|sudo", words[0]):
            words = words[1:]
        if words and words[0] in (program, f".venv/bin/{program}"):
            end = next((place for place, word in enumerate(words) if word in END_OF_COMMAND), len(words))
            if end > 1:
                yield words[1:end]
