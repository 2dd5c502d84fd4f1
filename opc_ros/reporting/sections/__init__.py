"""All sections of the report: each module of this package that defines SECTION is one, and is found automatically."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from opc_ros.reporting.section import Section


@cache
def all_sections() -> tuple[Section, ...]:
    """The sections in the order of the page."""
    found = [importlib.import_module(f"{__name__}.{module.name}").SECTION for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda section: section.place))
