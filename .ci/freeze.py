"""Print the packages of this environment as a constraints file, marking those that only an extra needs."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# Every version `make` installs; `make constraints` writes this file. What is marked with an extra of
# pyproject.toml is installed with that extra alone."""
PACKAGE = "opc-ros"
# Needed to build this package and packages without a wheel; nothing depends on them at run time.
BUILD = ("setuptools", "setuptools-scm", "vcs-versioning")


def main() -> None:
    plain, with_ros = collect(()), collect(("ros-wheels",))
    print(HEADER)
    for name, found in sorted(installed().items()):
        if name not in (PACKAGE, "pip"):
            mark = "" if name in (*plain, *BUILD) else "  # ros-wheels" if name in with_ros else "  # dev"
            print(f"{found.metadata['Name']}=={found.version.partition('+')[0]}{mark}")


def installed() -> dict[str, Distribution]:
    """What pip installed; ROS wheels also contain metadata under a second name, which is in no index."""
    return {canonicalize_name(d.metadata["Name"]): d for d in distributions() if d.read_text("INSTALLER")}


def collect(extras: Iterable[str]) -> set[str]:
    """Names of all direct and indirect dependencies of the package with these extras."""
    packages = installed()
    needed: set[str] = set()
    waiting = [(PACKAGE, frozenset(extras))]
    seen = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen or name not in packages:
            continue
        seen.add((name, wanted))
        needed.add(name)
        for text in packages[name].requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return needed - {PACKAGE}


if __name__ == "__main__":
    main()
