"""A page of results that several experiments write, each in a section of its own."""

from __future__ import annotations

from pathlib import Path

from opc_ros.durable import replace_file
from opc_ros.errors import SetupError


def write_section(page: Path, name: str, text: str) -> None:
    """Put an experiment's section into the page, in place of its previous one; the rest of the page stays."""
    begin, end = f"<!-- {name}: made by the command below -->", f"<!-- end of {name} -->"
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        before, after = "", ""
        if page.exists():
            before = page.read_text(encoding="utf-8")
            if begin in before and end in before:
                before, _, rest = before.partition(begin)
                after = rest.partition(end)[2]
            elif before and not before.endswith("\n\n"):
                before = before.rstrip("\n") + "\n\n"
        replace_file(page, f"{before}{begin}\n{text.rstrip()}\n{end}{after or chr(10)}".encode())
    except OSError as error:
        raise SetupError(f"cannot write {page}: {error.strerror or error}") from None
