"""Small SVG charts for the report; colours and type come from the page's style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps numbers from low to high onto pixels from start to end."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span > 0 else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers within the axis, about this many."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        rough = span / count
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A dot with a name and, if known, its uncertainty in both directions."""

    name: str
    x: float
    y: float
    x_interval: tuple[float, float] | None = None


def pad(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """The range with a small margin on both sides; a single value gets one too."""
    span = high - low or abs(high) or 1.0
    return low - span * share, high + span * share


def format_number(value: float) -> str:
    """As short as an axis needs, yet exact: thousands and millions become k and M."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:.4g}"


def draw_interval(axis: Axis, value: float, low: float, high: float) -> str:
    """A dot on its interval, for a table cell; a tick marks zero if it is in range."""
    zero = f'<path class="zero" d="M{axis.at(0):.1f} 2V16"/>' if axis.low < 0 < axis.high else ""
    return (
        f'<svg class="interval" viewBox="0 0 {axis.start + axis.end:g} 18" role="img" '
        f'aria-label="{value:.4f}, from {low:.4f} to {high:.4f}">{zero}'
        f'<path class="whisker" d="M{axis.at(low):.1f} 9H{axis.at(high):.1f}"/>'
        f'<circle class="dot" cx="{axis.at(value):.1f}" cy="9" r="3.5"/></svg>'
    )


def draw_scatter(
    points: Sequence[LabelledPoint],
    *,
    line: Sequence[Point] = (),
    band: Sequence[tuple[float, float, float]] = (),
    x_title: str,
    y_title: str,
    summary: str,
) -> str:
    """Dots with names, a fitted line and its band (x, low, high); y runs from 0 to 1."""
    width, height = 480, 340
    ends = [end for point in points for end in (point.x_interval or (point.x, point.x))]
    x_axis = Axis(*pad(min(ends), max(ends)), 46, width - 14)
    y_axis = Axis(0.0, 1.0, height - 42, 14)
    body = [_frame(x_axis, y_axis, x_title, y_title, percent=True)]
    if band:
        upper = [(x, _clip(high)) for x, _, high in band]
        lower = [(x, _clip(low)) for x, low, _ in reversed(band)]
        body.append(f'<path class="band" d="{_path(upper + lower, x_axis, y_axis)}Z"/>')
    if line:
        body.append(f'<path class="line" d="{_path([(x, _clip(y)) for x, y in line], x_axis, y_axis)}"/>')
    for point in points:
        y = y_axis.at(point.y)
        if point.x_interval:
            low, high = (x_axis.at(end) for end in point.x_interval)
            body.append(f'<path class="whisker thin" d="M{low:.1f} {y:.1f}H{high:.1f}"/>')
    radius = 3.5 if len(points) <= 40 else 2.5
    for point in points:
        title = html.escape(f"{point.name}: {point.x:.4f}, {point.y:.1%}")
        body.append(
            f'<circle class="dot" cx="{x_axis.at(point.x):.1f}" cy="{y_axis.at(point.y):.1f}" r="{radius}">'
            f"<title>{title}</title></circle>"
        )
    body += _labels([(point.name, x_axis.at(point.x), y_axis.at(point.y)) for point in points], width)
    return _svg(width, height, summary, body)


def draw_histogram(
    successes: Sequence[int], failures: Sequence[int], value_range: tuple[float, float], *, summary: str
) -> str:
    """Shares of successes, filled, and of failures, outlined, over the same bins."""
    width, height = 240, 104
    shares = [[count / max(1, sum(counts)) for count in counts] for counts in (successes, failures)]
    x_axis = Axis(0, len(successes), 6, width - 6)
    y_axis = Axis(0, max(max(shares[0]), max(shares[1])) or 1.0, height - 18, 6)
    body = [f'<path class="axis" d="M6 {height - 18}H{width - 6}"/>']
    for share, css in zip(shares, ("success", "failure"), strict=True):
        outline = [(0.0, 0.0)]
        for index, value in enumerate(share):
            outline += [(index, value), (index + 1, value)]
        outline.append((len(share), 0.0))
        body.append(f'<path class="{css}" d="{_path(outline, x_axis, y_axis)}"/>')
    for value, x, anchor in ((value_range[0], 6, "start"), (value_range[1], width - 6, "end")):
        body.append(f'<text x="{x}" y="{height - 4}" text-anchor="{anchor}">{format_number(value)}</text>')
    return _svg(width, height, summary, body)


def draw_training(
    rows: Sequence[tuple[float, float, float, float]], *, y_title: str, summary: str, best_label: str
) -> str:
    """Score over training steps with its band: rows of step, score, low, high; the best is marked."""
    width, height = 420, 240
    x_axis = Axis(*pad(rows[0][0], rows[-1][0], 0.02), 46, width - 12)
    y_axis = Axis(*pad(min(row[2] for row in rows), max(row[3] for row in rows)), height - 42, 14)
    outline = [(row[0], row[3]) for row in rows] + [(row[0], row[2]) for row in reversed(rows)]
    best = max(rows, key=lambda row: row[1])
    body = [
        _frame(x_axis, y_axis, "training step", y_title),
        f'<path class="band" d="{_path(outline, x_axis, y_axis)}Z"/>',
        f'<path class="line" d="{_path([(row[0], row[1]) for row in rows], x_axis, y_axis)}"/>',
    ]
    for row in rows:
        is_best = row is best
        body.append(
            f'<circle class="dot{" best" if is_best else ""}" cx="{x_axis.at(row[0]):.1f}" '
            f'cy="{y_axis.at(row[1]):.1f}" r="{4.5 if is_best else 2.5}">'
            f"<title>step {row[0]:,.0f}: {row[1]:.4f}</title></circle>"
        )
    x = x_axis.at(best[0])
    anchor = "end" if x > width * 0.6 else "start"
    body.append(
        f'<text class="strong" x="{x + (8 if anchor == "start" else -8):.1f}" y="{y_axis.at(best[1]) - 8:.1f}" '
        f'text-anchor="{anchor}">{html.escape(best_label)}</text>'
    )
    return _svg(width, height, summary, body)


def _frame(x_axis: Axis, y_axis: Axis, x_title: str, y_title: str, *, percent: bool = False) -> str:
    """Light grid lines with numbers at their ends, and a title for each axis."""
    parts = []
    for value in y_axis.ticks(5):
        y = y_axis.at(value)
        text = f"{value:.0%}" if percent else format_number(value)
        parts.append(f'<path class="grid" d="M{x_axis.start} {y:.1f}H{x_axis.end}"/>')
        parts.append(f'<text x="{x_axis.start - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for value in x_axis.ticks(5):
        x = x_axis.at(value)
        parts.append(f'<path class="axis" d="M{x:.1f} {y_axis.start}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{y_axis.start + 17}" text-anchor="middle">{format_number(value)}</text>')
    parts.append(f'<path class="axis" d="M{x_axis.start} {y_axis.start}H{x_axis.end}"/>')
    parts.append(f'<text x="{x_axis.end}" y="{y_axis.start + 35}" text-anchor="end">{html.escape(x_title)}</text>')
    parts.append(f'<text x="{x_axis.start + 4}" y="{y_axis.end - 3}">{html.escape(y_title)}</text>')
    return "".join(parts)


def _labels(points: Sequence[tuple[str, float, float]], width: float) -> list[str]:
    """Names beside dots, in the order given; one that would cover another name or dot is only in its tooltip."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for _, x, y in points]
    drawn = []
    for name, x, y in points:
        length = 5.6 * len(name)
        left = x + 7 if x + 7 + length < width - 4 else x - 7 - length
        box = (left, y - 6, left + length, y + 6)
        if left < 48 or any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        drawn.append(f'<text class="name" x="{left:.1f}" y="{y + 3.5:.1f}">{html.escape(name)}</text>')
    return drawn


def _path(points: Sequence[Point], x_axis: Axis, y_axis: Axis) -> str:
    return "M" + "L".join(f"{x_axis.at(x):.1f} {y_axis.at(y):.1f}" for x, y in points)


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _svg(width: int, height: int, summary: str, body: Sequence[str]) -> str:
    label = html.escape(summary, quote=True)
    return f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(body)}</svg>'
