"""State diagrams and charts as SVG, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from docs.site.machines import Transition
from docs.site.subjects import Chart

WIDTH = 360
"""Width of all drawings in CSS pixels, which fits the screen of a telephone."""
_BOX_WIDTH = 168
_LEFT = (WIDTH - _BOX_WIDTH) / 2
_RIGHT = _LEFT + _BOX_WIDTH
_GAP = 52
_PORT = 17
"""Distance between the ends of two arrows at the same side of a box."""
_MIN_BULGE, _BULGE = 34, 26


def state_diagram(states: Sequence[str], transitions: Sequence[Transition], title: str) -> str:
    """Return a drawing of a column of states with numbered arrows between the states.

    Arrows that go down are on the right, and arrows that go up are on the left. An event that does not change
    the state is a loop. Arrow n is ``transitions[n - 1]``.
    """
    place = {name: index for index, name in enumerate(states)}
    ends: dict[tuple[int, str], list[tuple[int, float, int]]] = {}
    for number, each in enumerate(transitions):
        before, after = place[each.before], place[each.after]
        side = "right" if after >= before else "left"
        loop = before == after
        # Ends are sorted by the position of the other end, so that arrows from one box do not cross.
        ends.setdefault((before, side), []).append((number, after + (0.3 if loop else 0.0), 0))
        ends.setdefault((after, side), []).append((number, before + (0.6 if loop else 0.0), 1))
    counts = [
        max(len(ends.get((index, "right"), ())), len(ends.get((index, "left"), ())))
        for index in range(len(states))
    ]
    heights = [max(40.0, _PORT * (count + 0.6)) for count in counts]
    tops = [12 + sum(heights[:index]) + index * _GAP for index in range(len(states))]
    at: dict[tuple[int, int], float] = {}
    for (index, _), found in ends.items():
        for rank, (number, _, end) in enumerate(sorted(found, key=lambda each: (each[1], each[2], each[0]))):
            at[number, end] = tops[index] + heights[index] * (rank + 0.5) / len(found)
    lanes = _lanes([(place[each.before], place[each.after]) for each in transitions])
    parts = []
    for number, each in enumerate(transitions):
        right = place[each.after] >= place[each.before]
        x, sign = (_RIGHT, 1) if right else (_LEFT, -1)
        first, last = at[number, 0], at[number, 1]
        bulge = sign * min(_MIN_BULGE + _BULGE * lanes[number], 118)
        out, tip = x + bulge, x + sign * 3
        curve = f"M{x:.1f} {first:.1f}C{out:.1f} {first:.1f} {out:.1f} {last:.1f} {tip:.1f} {last:.1f}"
        parts.append(f'<path class="edge" marker-end="url(#arrow)" d="{curve}"/>')
        parts.append(_badge(x + 0.75 * bulge, (first + last) / 2, number + 1))
    for name, top, height in zip(states, tops, heights, strict=True):
        size = f'x="{_LEFT:.1f}" y="{top:.1f}" width="{_BOX_WIDTH}" height="{height:.1f}"'
        middle = f'x="{WIDTH / 2}" y="{top + height / 2 + 5:.1f}"'
        parts.append(f'<rect class="state" {size} rx="8"/><text class="name" {middle}>{escape(name)}</text>')
    total = tops[-1] + heights[-1] + 12
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return _svg(total, title, [marker, *parts])


def _badge(x: float, y: float, number: int) -> str:
    return (
        f'<circle class="badge" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        f'<text class="number" x="{x:.1f}" y="{y + 4:.1f}">{number}</text>'
    )


def _lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return the lane of each arrow; lanes further out are for arrows that enclose other arrows."""
    lanes = [0] * len(spans)
    for side in (True, False):
        own = [index for index, (before, after) in enumerate(spans) if (after >= before) is side]
        taken: list[list[tuple[int, int]]] = []
        for index in sorted(own, key=lambda each: (abs(spans[each][1] - spans[each][0]), each)):
            low, high = sorted(spans[index])
            lane = 0
            if low == high:
                continue
            while lane < len(taken) and any(low < b and a < high for a, b in taken[lane]):
                lane += 1
            if lane == len(taken):
                taken.append([])
            taken[lane].append((low, high))
            lanes[index] = lane
    return lanes


_PLOT_LEFT, _PLOT_TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 46, 12, 302, 168


def chart(drawn: Chart) -> str:
    """Return a drawing of a chart, whose curves differ in colour and dashes."""
    points = [point for curve in drawn.curves for point in curve.points]
    xs, ys = _scale([x for x, _ in points]), _scale([y for _, y in points])

    def place(x: float, y: float) -> str:
        across = (x - xs[0]) / (xs[-1] - xs[0])
        up = (y - ys[0]) / (ys[-1] - ys[0])
        return f"{_PLOT_LEFT + across * _PLOT_WIDTH:.1f} {_PLOT_TOP + (1 - up) * _PLOT_HEIGHT:.1f}"

    bottom, right = _PLOT_TOP + _PLOT_HEIGHT, _PLOT_LEFT + _PLOT_WIDTH
    parts = []
    for y in ys:
        at = place(xs[0], y).split()[1]
        parts.append(f'<path class="grid" d="M{_PLOT_LEFT} {at}H{right}"/>')
        parts.append(
            f'<text class="tick end" x="{_PLOT_LEFT - 6}" y="{float(at) + 4:.1f}">{_number(y)}</text>'
        )
    for x in xs:
        at = place(x, ys[0]).split()[0]
        parts.append(f'<path class="grid" d="M{at} {bottom}v4"/>')
        parts.append(f'<text class="tick" x="{at}" y="{bottom + 17}">{_number(x)}</text>')
    for number, curve in enumerate(drawn.curves):
        path = "L".join(place(x, y) for x, y in curve.points)
        parts.append(f'<path class="curve curve-{number}" d="M{path}"/>')
    parts.append(
        f'<text class="axis" x="{(_PLOT_LEFT + right) / 2}" y="{bottom + 34}">{escape(drawn.x)}</text>'
    )
    middle = _PLOT_TOP + _PLOT_HEIGHT / 2
    parts.append(
        f'<text class="axis" transform="translate(11 {middle}) rotate(-90)">{escape(drawn.y)}</text>'
    )
    height = bottom + 42
    for number, curve in enumerate(drawn.curves):
        if curve.label:
            parts.append(f'<path class="curve curve-{number}" d="M{_PLOT_LEFT} {height + 6}h26"/>')
            at = f'x="{_PLOT_LEFT + 34}" y="{height + 10}"'
            parts.append(f'<text class="tick start" {at}>{escape(curve.label)}</text>')
            height += 18
    return _svg(height + 4, drawn.title, parts)


def _scale(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers that enclose the minimum and the maximum value."""
    low, high = min(values), max(values)
    if high == low:
        high = low + 1
    step = 10 ** math.floor(math.log10((high - low) / 4))
    while (high - low) / step > 7:
        step *= 2 if round(step / 10 ** math.floor(math.log10(step))) != 2 else 2.5
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
        f'role="img" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def legend(transitions: Sequence[Transition]) -> str:
    """Return a list of the numbered arrows in a diagram, with states and causes."""
    items = []
    for each in transitions:
        way = f"stays in <b>{escape(each.before)}</b>"
        if each.before != each.after:
            way = f"<b>{escape(each.before)}</b> → <b>{escape(each.after)}</b>"
        causes = []
        for cause, counters in sorted(each.causes.items()):
            counted = ", ".join(f"<code>{escape(name)}</code>" for name in sorted(counters))
            causes.append(f"{escape(cause)}{f' ({counted})' if counted else ''}")
        items.append(f"<li>{way}: {'; '.join(causes)}</li>")
    return f'<ol class="transitions">{"".join(items)}</ol>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in HTML."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="docutils"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
