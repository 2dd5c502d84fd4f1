"""One word, one meaning: no two classes of the package share a name, and no module grows past a few screens."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.tree import ROOT, tracked

FILES = [path for top in ("opc_ros", "sim_bridge") for path in (ROOT / top).rglob("*.py")]

MAX_LINES = 350

# Class name -> why two may have it.
SHARED = {
    "Answer": "what a candidate's process says; nothing outside policies/worker sees it",
    "Request": "what a candidate's process is asked; nothing outside policies/worker sees it",
}


def test_no_two_classes_share_a_name_without_a_reason() -> None:
    found = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in found.items() if len(paths) > 1 and name not in SHARED}
    assert twice == {}, "rename one of each pair to what it is"


def test_no_module_is_longer_than_a_few_screens() -> None:
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in tracked("*.py")}
    assert "tests/test_names.py" in lines, "tests are modules as well"
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}, "split what holds two ideas"


def test_code_says_image_and_not_picture() -> None:
    words = [path.relative_to(ROOT).as_posix() for path in FILES if "picture" in path.read_text().lower()]
    assert words == []
