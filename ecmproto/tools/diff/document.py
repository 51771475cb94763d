"""Differences as JSON: ``ecmproto/diff/1`` objects, one per difference, and a summary.

A difference has ``kind`` (changed, retimed, moved, missing or added), ``a`` and ``b``. ``a`` and ``b`` are
the frame in the two captures, or null: ``number`` from 1, ``time_ns`` (null without a time), ``interface``,
``summary``. Frames in both captures have ``time_difference_ns``, the delay in the second capture. Changed
frames have ``fields``, a list of objects with ``name``, ``a`` and ``b``. There, ``a`` and ``b`` are lists
of values: numbers as numbers, octets in hex, times in ns.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from ecmproto.frames.dissect.lines import describe
from ecmproto.tools.diff.comparison import Comparison, Difference, Kind, Place
from ecmproto.tools.diff.fields import FieldChange, value_json

SCHEMA = "ecmproto/diff/1"

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def difference_document(difference: Difference) -> dict[str, Json]:
    """Return a difference as plain data."""
    document: dict[str, Json] = {
        "kind": difference.kind,
        "a": _frame_document(difference.a),
        "b": _frame_document(difference.b),
    }
    if difference.a is not None and difference.b is not None:
        document["time_difference_ns"] = difference.time_difference_ns
    if difference.kind == "changed":
        document["fields"] = [_field(change) for change in difference.fields]
    return document


def _frame_document(position: Place | None) -> dict[str, Json] | None:
    if position is None:
        return None
    return {
        "number": position.number,
        "time_ns": position.time_ns,
        "interface": position.interface,
        "summary": " ".join(filter(None, describe(position.record.frame))),
    }


def _counts(types: dict[Kind, int]) -> dict[str, Json]:
    return dict(types.items())


def _field(change: FieldChange) -> dict[str, Json]:
    return {
        "name": change.name,
        "a": [value_json(change.name, value) for value in change.a],
        "b": [value_json(change.name, value) for value in change.b],
    }


def summary_document(comparison: Comparison) -> dict[str, Json]:
    """Return the counts of a comparison so far, and its rules, as plain data."""
    summary, rules = comparison.summary, comparison.rules
    times = summary.times
    document: dict[str, Json] = {
        "a": {"path": comparison.captures[0].path, "frames": summary.frames_a},
        "b": {"path": comparison.captures[1].path, "frames": summary.frames_b},
        "ignored": list(rules.ignored),
        "tolerances": {
            name: f"{float(each.share * 100):g}%" if each.share else each.absolute
            for name, each in rules.tolerances.items()
        },
        "same": summary.same,
        **_counts(summary.kinds),
        "fields": {name: each.frames for name, each in summary.fields.items()},
        "times": None
        if times is None
        else {
            "pairs": times.pairs,
            "differing": times.differing,
            "beyond_tolerance": times.beyond,
            "median_ns": times.offset_ns,
            "min_ns": times.min_ns,
            "max_ns": times.max_ns,
            "drift_ppm": None if math.isnan(times.drift_ppm) else round(times.drift_ppm, 6),
            "low_ns": times.low_ns,
            "high_ns": times.high_ns,
            "taken_off": rules.align_time,
        },
    }
    if summary.interfaces:
        document["interfaces"] = [
            {"name": each.name, "same": each.same, **_counts(each.kinds)} for each in summary.interfaces
        ]
    return document
