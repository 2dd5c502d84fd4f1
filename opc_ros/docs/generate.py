"""Write the reference pages from the code: commands, ROS interfaces, node parameters and configuration files.

python -m opc_ros.docs.generate            # write opc_ros/docs/reference/*.md
python -m opc_ros.docs.generate --check    # exit 1 where a page is out of date
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from opc_ros.bringup.nodes import PROGRAMS
from opc_ros.bringup.systems import SYSTEMS
from opc_ros.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = Path(__file__).resolve().parent / "reference"
INTERFACES = ROOT / "ros2_ws" / "src" / "opc_interfaces"
NOTE = "<!-- Made by `python -m opc_ros.docs.generate`; change the code, not this page. -->\n"
WIDTH = "100"  # of help texts, whatever the terminal this runs in


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    arguments = parser.parse_args(argv)
    os.environ["COLUMNS"] = WIDTH
    stale = [name for name, text in make_pages().items() if read_page(name) != text]
    if arguments.check:
        for name in stale:
            print(f"{PAGES / name}: out of date; run `python -m opc_ros.docs.generate`", file=sys.stderr)
        return 1 if stale else 0
    PAGES.mkdir(exist_ok=True)
    for name, text in make_pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
    return 0


def make_pages() -> dict[str, str]:
    """Every reference page by file name."""
    return {
        "commands.md": _page("Commands", _commands()),
        "interfaces.md": _page("ROS interfaces", _interfaces()),
        "nodes.md": _page("Nodes and systems", _nodes()),
        "configuration.md": _page("Configuration files", _configuration()),
    }


def read_page(name: str) -> str:
    try:
        return (PAGES / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _page(title: str, parts: Iterator[str]) -> str:
    return f"# {title}\n\n{NOTE}\n" + "\n".join(parts) + "\n"


def _commands() -> Iterator[str]:
    yield "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.\n"
    for words, parser in walk_parsers(build_parser(), "opc"):
        yield f"## {words}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def walk_parsers(parser: argparse.ArgumentParser, words: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb with its parser, deepest last."""
    if words != "opc":
        yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                yield from walk_parsers(verb, f"{words} {name}")


def _interfaces() -> Iterator[str]:
    for kind, title in (("msg", "Messages"), ("srv", "Services"), ("action", "Actions")):
        yield f"## {title}\n"
        for path in sorted((INTERFACES / kind).glob(f"*.{kind}")):
            yield f"### {path.stem}\n\n```text\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def _nodes() -> Iterator[str]:
    yield "`opc up SYSTEM name:=value ...` and `ros2 launch opc_ros SYSTEM.launch.py` start these systems.\n"
    for system in SYSTEMS:
        yield f"## System `{system.name}`\n\n{system.summary}\n"
        yield "| argument | default | meaning |\n|---|---|---|"
        yield from (_row(f"`{a.name}`", _code(a.default), a.meaning) for a in system.arguments)
        yield ""
    for program, module in sorted(PROGRAMS.items()):
        for kind in _node_classes(module):
            yield f"## Node `{program}`\n\n{_sentence(kind.__doc__)}\n"
            yield "| parameter | default | meaning |\n|---|---|---|"
            yield from _fields(kind.SETTINGS)
            yield ""


def _node_classes(module: str) -> list[Any]:
    from opc_ros.ros.lifecycle import OpcNode

    loaded = importlib.import_module(module)
    kinds = [value for value in vars(loaded).values() if isinstance(value, type) and issubclass(value, OpcNode)]
    return [kind for kind in kinds if kind.__module__ == module and hasattr(kind, "NAME")]


def _configuration() -> Iterator[str]:
    yield "Every key is checked: one that nobody reads is an error, and so is a number out of range.\n"
    for path in sorted((ROOT / "config").glob("*.yaml")):
        yield f"## config/{path.name}\n\n```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def _fields(kind: type) -> Iterator[str]:
    for field in dataclasses.fields(kind):
        low, high = field.metadata.get("low"), field.metadata.get("high")
        bounds = [f"{word} {bound:g}" for word, bound in (("from", low), ("to", high)) if bound is not None]
        meaning = field.metadata.get("meaning", "")
        default = "" if field.default is dataclasses.MISSING else _code(field.default)
        yield _row(f"`{field.name}`", default, meaning + (f" ({' '.join(bounds)})" if bounds else ""))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(value: object) -> str:
    return f"`{value}`" if str(value) else "(empty)"


def _sentence(text: str | None) -> str:
    return re.split(r"\n\s*\n", (text or "").strip())[0].replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
