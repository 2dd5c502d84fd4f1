"""Text in columns with headers, for people."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """One line of headers and one for each row: numbers right-aligned, text left-aligned, two spaces apart."""
    cells = [[_to_text(value) for value in row] for row in rows]
    widths = [max(len(header), *(len(row[at]) for row in cells), 0) for at, header in enumerate(headers)]
    is_number = [bool(rows) and all(isinstance(row[at], (int, float)) for row in rows) for at in range(len(headers))]

    def line(values: Sequence[str]) -> str:
        return "  ".join(
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, is_number, strict=True)
        ).rstrip()

    return "\n".join([line(headers), *map(line, cells)])


def _to_text(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
