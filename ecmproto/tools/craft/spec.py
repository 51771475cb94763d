"""Specifications of frames in TOML or JSON.  Users write TOML or JSON; ``dissect`` and ``craft`` write JSON.

::

    schema = "ecmproto/frames/1"

    [[frames]]
    frame = "cnm qntz_fb=40 flow_id=7"       # as on the command line, or layers = [{layer = "cnm", …}, …]
    vlan = 5                                 # also prio, dst, src, flow
    count = 10                               # number of frames; a sweep stops early or repeats
    interval = "1us"                         # time between frames, or rate = "1000pps", "1G"
    time = "1s"                              # time of the first frame, or time_ns
    sweep = {"cnm.qntz_fb" = "0..63"}
    raw = false                              # true: no default layers, computed fields or padding
    comment = "…"                            # is written to pcapng

A frame with ``captured_octets`` is an exact frame, which is read without changes.  With `Reading.exact`, all
frames with ``layers`` are exact frames.

JSON is read in pieces.  The input can be one document with a long list of frames, or one document per line.
Memory contains only one frame and the members outside the list (`ecmproto.documents`).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import IO, Any

import numpy as np

from ecmproto.documents import MAX_VALUE_CHARACTERS, JsonStream, read_document
from ecmproto.errors import SpecError, escaped, shown
from ecmproto.frames.dissect.json import FRAME_SCHEMA, FRAMES_SCHEMA, RECORD_KEYS
from ecmproto.tools.craft.builders import complete, put_right
from ecmproto.tools.craft.expectations import Expectation, Side, expectations_from
from ecmproto.tools.craft.recipe import (
    MAX_INTERFACES,
    MAX_TIME_NS,
    CaptureInfo,
    Chunk,
    Recipe,
    Spacing,
    capture_info,
    check_keys,
    integer,
    is_text,
    placed,
    rate_of,
    time_of,
)
from ecmproto.tools.craft.stack import Part, Stack, stack_from_line
from ecmproto.tools.craft.sweep import Plan, axis_of
from ecmproto.wire.codec.document import frame_keys, from_document, layer_from
from ecmproto.wire.codec.frame import encode
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.schema import Field


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """The octets and record data of a frame, with the same attributes as `Chunk`."""

    octets: bytes
    time_ns: int
    original: int
    interface: int
    linktype: int
    comments: tuple[str, ...]

    def goes_with(self, other: Exact) -> bool:
        """Return whether this frame and the next frame ``other`` fit into one chunk."""
        same = (self.interface, self.linktype) == (other.interface, other.linktype)
        return same and not self.comments


def chunk_of(frames: list[Exact]) -> Chunk:
    """Return one chunk of frames that fit together (`Exact.goes_with`)."""
    return Chunk(
        frames=[frame.octets for frame in frames],
        time_ns=np.array([frame.time_ns for frame in frames], dtype=np.int64),
        original=np.array([frame.original for frame in frames], dtype=np.int64),
        interface=frames[0].interface,
        linktype=frames[0].linktype,
        comments=frames[0].comments,
    )


def exact(
    item: Mapping[str, Any], where: str, capture: CaptureInfo, ethertypes: EtherTypes, fix: bool
) -> Exact:
    """Return the exact frame that a document describes. The frame is corrected only if ``fix`` is true.

    The interface of the frame is added to ``capture``. Raises SpecError with ``where`` for an invalid frame.
    """
    check_keys(item, RECORD_KEYS | frame_keys(), where, "a key of a frame")
    with placed(where):
        frame, _ = from_document(item, where="frame", ethertypes=ethertypes)
        if fix and not item.get("cut"):
            frame = put_right(frame, [()] * len(frame.layers))
        octets = encode(frame)
    interface = integer(item, "interface", 0, MAX_INTERFACES - 1, where)
    known = capture.interfaces
    linktype = integer(
        item, "linktype", known[interface].linktype if interface < len(known) else 1, 0xFFFF, where
    )
    capture.describe(interface, linktype)
    captured = integer(item, "captured_octets", len(octets), 0xFFFFFFFF, where)
    original = integer(item, "original_octets", captured, 0xFFFFFFFF, where)
    if captured != len(octets):  # a user changed a value: the truncated octets stay truncated
        original = len(octets) + max(0, original - captured)
    comments = item.get("comments", [])
    if not isinstance(comments, list) or not all(map(is_text, comments)):
        raise SpecError(where=f"{where}.comments", needed="a list of texts", got=ascii(comments)[:60])
    return Exact(
        octets=octets,
        time_ns=_captured_time(item, where, capture),
        original=original,
        interface=interface,
        linktype=linktype,
        comments=tuple(comments),
    )


def _captured_time(item: Mapping[str, Any], where: str, capture: CaptureInfo) -> int:
    """Return the time of a captured frame, limited to the range of a capture."""
    given = item.get("time_ns")
    if given is None:
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and not 0 <= given <= MAX_TIME_NS:
        capture.warnings = [_CLAMPED]
        return MAX_TIME_NS if given > 0 else 0
    return integer(item, "time_ns", 0, MAX_TIME_NS, where)


_CLAMPED = "times before 1970 or beyond 64 bits of nanoseconds are written as the nearest"
_SHORTHANDS = ("vlan", "prio", "dst", "src", "flow", "ip")
_RECIPE_KEYS = (
    "frame", "layers", *_SHORTHANDS, "padding", "trailer", "fcs", "count", "interval", "rate", "time",
    "time_ns", "sweep", "raw", "comment",
)  # fmt: skip
MAX_COUNT = 1 << 53
_EXACT_FRAMES = 1024
_LINE = re.compile(rf'\{{\s*"schema"\s*:\s*"{re.escape(FRAME_SCHEMA)}"')


@dataclasses.dataclass(slots=True, kw_only=True)
class Reading:
    """Options for reading specifications: EtherTypes, exact frames, and the random number generator."""

    ethertypes: EtherTypes = DEFAULT
    exact: bool = False
    """Whether every frame with layers is read as an exact frame without changes."""
    fix: bool = False
    """Whether types, lengths, checksums and padding of exact frames are computed."""
    random: Random = dataclasses.field(default_factory=lambda: Random(0))
    capture: CaptureInfo = dataclasses.field(default_factory=CaptureInfo)
    """Description of the capture in the document, which is available after the reader reached the frames."""


def read_toml(
    stream: IO[bytes], name: str, reading: Reading, *, side: Side = "near"
) -> Iterator[Recipe | Chunk]:
    """Yield the frames of a TOML specification that are sent from ``side``.

    Raises SpecError for an invalid specification.
    """
    document = read_document(stream, name)
    check_keys(document, ("schema", "frames", "expect"), name, "schema, frames and expect")
    expectations_from(document.get("expect", []), name)
    _check_schema(document.get("schema", FRAMES_SCHEMA), name)
    frames = document.get("frames", [])
    if not isinstance(frames, list):
        raise SpecError(where=name, needed="[[frames]], one for each", got=shown(frames))
    named = ((f"{name}: frames[{index}]", item) for index, item in enumerate(frames))
    return _items(_of_side(named, side), reading)


def _of_side(items: Iterable[tuple[str, Any]], side: Side) -> Iterator[tuple[str, Any]]:
    """Yield the items that are sent from ``side``, without the ``side`` key. The default side is near."""
    for where, item in items:
        if isinstance(item, Mapping) and "side" in item:
            if item["side"] not in ("near", "far"):
                raise SpecError(where=f"{where}.side", needed="near or far", got=shown(item["side"]))
            if item["side"] == side:
                yield where, {key: value for key, value in item.items() if key != "side"}
        elif side == "near":
            yield where, item


def read_expectations(stream: IO[bytes], name: str) -> list[Expectation]:
    """Return the expectations of a TOML specification.

    Raises the same errors as `read_toml` and `expectations_from`.
    """
    return expectations_from(read_document(stream, name).get("expect", []), name)


def read_items(items: Iterable[Any], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the frames of items that have the keys of ``[[frames]]`` in TOML.

    Raises SpecError as in `read_toml`.
    """
    return _items(((f"{name}: frames[{i}]", item) for i, item in enumerate(items)), reading)


def read_json(stream: IO[str], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the frames of a JSON document, or of a stream with one document per line.

    Raises SpecError for an invalid document.
    """
    return _items(_json_frames(JsonStream(stream, name), name, reading), reading)


def _json_frames(stream: JsonStream, name: str, reading: Reading) -> Iterator[tuple[str, Any]]:
    number = 0
    while stream.peek():
        if stream.starts_with(_LINE):
            yield f"{name}: frame {number + 1}", stream.value()
            number += 1
            continue
        lone: dict[str, Any] = {}
        has_frames = False
        start = stream.position
        for key in stream.members():
            if stream.position - start > MAX_VALUE_CHARACTERS:
                needed = f"at most {MAX_VALUE_CHARACTERS >> 20} Mi characters beside the frames"
                raise stream.error(needed, "more")
            if key == "frames":
                has_frames = True
                begun = stream.position
                for index, item in enumerate(stream.items()):
                    yield f"{name}: frames[{index}]", item
                start += stream.position - begun
                continue
            lone[key] = value = stream.value()
            if key == "schema":
                _check_schema(value, name)
            elif key == "capture":
                if has_frames:
                    raise stream.error("capture before frames", "it after them")
                reading.capture = capture_info(value, where=f"{name}: capture")
        if not has_frames:
            yield f"{name}: frame {number + 1}", lone
            number += 1


def _check_schema(value: object, name: str) -> None:
    if value not in (FRAMES_SCHEMA, FRAME_SCHEMA):
        raise SpecError(where=f"{name}: schema", needed=f"{FRAMES_SCHEMA!r}", got=shown(value))


def _items(items: Iterable[tuple[str, Any]], reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the recipe of each item. Exact frames are combined into chunks."""
    gathered: list[Exact] = []
    for where, item in items:
        if not isinstance(item, Mapping):
            raise SpecError(where=where, needed="an object that describes a frame", got=shown(item))
        if "frame" in item or not (reading.exact or "captured_octets" in item):
            if gathered:
                yield chunk_of(gathered)
                gathered = []
            yield _recipe(item, where, reading)
            continue
        frame = exact(item, where, reading.capture, reading.ethertypes, reading.fix)
        if gathered and (
            frame.comments or not gathered[-1].goes_with(frame) or len(gathered) == _EXACT_FRAMES
        ):
            yield chunk_of(gathered)
            gathered = []
        gathered.append(frame)
    if gathered:
        yield chunk_of(gathered)


def _recipe(item: Mapping[str, Any], where: str, reading: Reading) -> Recipe:
    check_keys((key for key in item if key != "schema"), _RECIPE_KEYS, where, "a key of a frame")
    with placed(where):
        stack = _stack(item)
        for name in _SHORTHANDS:
            if name in item:
                stack.give(name, item[name], None)
        stack.settle()
        plan = plan_of(
            stack,
            _sweeps(item.get("sweep", {})),
            random=reading.random,
            ethertypes=reading.ethertypes,
            raw=_flag(item, "raw"),
            **{key: _octets(item, key) for key in ("padding", "trailer", "fcs")},
        )
        comment = item.get("comment")
        if comment is not None and not is_text(comment):
            raise SpecError(where="comment", needed="text", got=shown(comment))
        return Recipe(
            plan=plan,
            count=integer(item, "count", 1, MAX_COUNT, "frame") if "count" in item else None,
            spacing=_interval(item),
            time_ns=_time(item),
            comments=() if comment is None else (comment,),
            where=where,
        )


def plan_of(stack: Stack, sweeps: Mapping[str, object], *, random: Random, **options: Any) -> Plan:
    """Return the plan for a settled stack and sweeps such as ``{"cnm.qntz_fb": "0..63"}``.

    ``options`` are attributes of `Plan`. Raises SpecError for an unknown field, and for a field that is both
    given and swept. Raises EncodeError for a value that does not fit.
    """
    axes = []
    for name, values in sweeps.items():
        part, field = located(stack, name, raw=bool(options.get("raw")))
        axis = axis_of(part, field, values, random)
        try:
            part.give(field, axis.at(0))
        except SpecError as error:
            needed = "each field once, as a value or as a sweep, which adds its layer"
            raise SpecError(where=error.where, needed=needed, got="the field twice") from None
        axes.append(axis)
    plan = Plan(stack=stack, axes=tuple(axes), **options)
    plan.finished()
    return plan


def located(stack: Stack, name: str, *, raw: bool) -> tuple[Part, Field]:
    """Return the layer and field with the name ``name``, including the default layers of the frame."""
    try:
        return stack.locate(name, None)
    except SpecError:
        whole = Stack()
        whole.parts = list(stack.parts)
        if raw or not complete(whole) or not any(part.own(name) for part in whole.parts):
            raise
        stack.parts = whole.parts
        return stack.locate(name, None)


def _stack(item: Mapping[str, Any]) -> Stack:
    line, layers = item.get("frame"), item.get("layers")
    if isinstance(line, str) and layers is None:
        return stack_from_line(line)
    if line is not None or not isinstance(layers, list) or not layers:
        raise SpecError(
            where="frame",
            needed='frame = "cnm …" or layers = [{layer = "cnm", …}]',
            got=shown(dict(item)),
        )
    stack = Stack()
    for index, layer in enumerate(layers):
        value, keys = layer_from(layer, where=f"layers[{index}]")
        stack.parts.append(Part(type(value), {key: getattr(value, key) for key in keys}))
    return stack


def _sweeps(given: object) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise SpecError(where="sweep", needed='an object such as {"cnm.qntz_fb" = "0..63"}', got=shown(given))
    return given


def _flag(item: Mapping[str, Any], key: str) -> bool:
    value = item.get(key, False)
    if not isinstance(value, bool):
        raise SpecError(where=key, needed="true or false", got=shown(value))
    return value


def _octets(item: Mapping[str, Any], key: str) -> bytes:
    value = item.get(key, "")
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise SpecError(where=key, needed="octets in hex", got=shown(value)) from None


def _interval(item: Mapping[str, Any]) -> Spacing | None:
    if "interval" in item and "rate" in item:
        raise SpecError(where="rate", needed="an interval or a rate", got="both")
    if "interval" in item:
        return Fraction(time_of(item["interval"], "interval"))
    return rate_of(item["rate"]) if "rate" in item else None


def _time(item: Mapping[str, Any]) -> int | None:
    if "time" in item and "time_ns" in item:
        raise SpecError(where="time", needed="time or time_ns", got="both")
    if "time_ns" in item:
        return integer(item, "time_ns", 0, MAX_TIME_NS, "frame")
    return time_of(item["time"], "time") if "time" in item else None


def toml_of(items: Iterable[Mapping[str, Any]], expectations: Iterable[Expectation] = ()) -> Iterator[str]:
    """Yield the TOML text of a specification with the given items and expectations, piece by piece.

    Values can be text, integers, booleans, and mappings of text, integers and booleans.
    """
    yield f"schema = {_value(FRAMES_SCHEMA)}\n"
    for item in items:
        yield "\n[[frames]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in item.items())
    for each in expectations:
        yield "\n[[expect]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in each.item().items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)} = {_value(each)}' for key, each in value.items())}}}"
    # basic strings, integers and booleans are written in TOML as in JSON
    return escaped(json.dumps(value, ensure_ascii=False))
