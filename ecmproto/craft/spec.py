"""Specifications: frames described in TOML or JSON by a person, or in JSON by ``dissect`` and ``craft``.

::

    schema = "ecmproto/frames/1"

    [[frames]]
    frame = "cnm qntz_fb=40 flow_id=7"       # as on the command line, or layers = [{layer = "cnm", …}, …]
    vlan = 5                                 # also prio, dst, src, flow
    count = 10                               # how many; of a sweep the first so many, or over and over
    interval = "1us"                         # between two frames, or rate = "1000pps", "1G"
    time = "1s"                              # of the first, or time_ns
    sweep = {"cnm.qntz_fb" = "0..63"}
    raw = false                              # true adds, computes and pads nothing
    comment = "…"                            # goes into pcapng

A frame with ``captured_octets``, or any frame with ``layers`` read by `exact`, is taken as it stands.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import IO, Any

from ecmproto.codec.document import layer_from, nearest
from ecmproto.craft.axis import axis_of
from ecmproto.craft.capture_info import CaptureInfo, capture_info
from ecmproto.craft.defaults import complete
from ecmproto.craft.exact import Exact, chunk_of, exact
from ecmproto.craft.jsonstream import MAX_VALUE_CHARACTERS, JsonStream
from ecmproto.craft.line import stack_from_line
from ecmproto.craft.quantities import integer, is_text, placed, rate_of, time_of
from ecmproto.craft.recipe import MAX_TIME_NS, Chunk, Recipe, Spacing
from ecmproto.craft.stack import Part, Stack
from ecmproto.craft.sweep import Plan
from ecmproto.craft.toml import read_document
from ecmproto.dissect.json import FRAME_SCHEMA, FRAMES_SCHEMA
from ecmproto.errors import SpecError, shown
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.schema import Field

_SHORTHANDS = ("vlan", "prio", "dst", "src", "flow")
_RECIPE_KEYS = (
    "frame", "layers", *_SHORTHANDS, "padding", "trailer", "fcs", "count", "interval", "rate", "time",
    "time_ns", "sweep", "raw", "comment",
)  # fmt: skip
MAX_COUNT = 1 << 53
_EXACT_FRAMES = 1024
_LINE = re.compile(rf'\{{\s*"schema"\s*:\s*"{re.escape(FRAME_SCHEMA)}"')


@dataclasses.dataclass(slots=True, kw_only=True)
class Reading:
    """How specifications are read: the EtherType map, whether exact frames are put right, the randomness."""

    ethertypes: EtherTypes = DEFAULT
    exact: bool = False
    """Take every frame with layers as it stands."""
    fix: bool = False
    """Compute the types, lengths and checksums of frames taken as they stand, and pad them."""
    random: Random = dataclasses.field(default_factory=lambda: Random(0))
    capture: CaptureInfo = dataclasses.field(default_factory=CaptureInfo)
    """What the document says of its capture, once its frames are being read."""


def read_toml(stream: IO[bytes], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the frames of a TOML specification; SpecError with the place of what is wrong."""
    document = read_document(stream, name)
    for key in document:
        if key not in ("schema", "frames"):
            raise SpecError(
                where=name, needed="schema and frames", got=repr(key), hint=nearest(key, ("schema", "frames"))
            )
    _check_schema(document.get("schema", FRAMES_SCHEMA), name)
    frames = document.get("frames", [])
    if not isinstance(frames, list):
        raise SpecError(where=name, needed="[[frames]], one for each", got=shown(frames))
    return read_items(frames, name, reading)


def read_items(items: Iterable[Any], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the frames of items, each as a ``[[frames]]`` of TOML has it; SpecError as `read_toml`."""
    return _items(((f"{name}: frames[{i}]", item) for i, item in enumerate(items)), reading)


def read_json(stream: IO[str], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield the frames of a JSON document, or of one document a line; SpecError as `read_toml`."""
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
                    raise stream.error("capture in front of frames", "it behind them")
                reading.capture = capture_info(value, where=f"{name}: capture")
        if not has_frames:
            yield f"{name}: frame {number + 1}", lone
            number += 1


def _check_schema(value: object, name: str) -> None:
    if value not in (FRAMES_SCHEMA, FRAME_SCHEMA):
        raise SpecError(where=f"{name}: schema", needed=f"{FRAMES_SCHEMA!r}", got=shown(value))


def _items(items: Iterable[tuple[str, Any]], reading: Reading) -> Iterator[Recipe | Chunk]:
    """Yield what each item comes to; frames taken as they stand are gathered into chunks."""
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
    for key in item:
        if key not in _RECIPE_KEYS and key != "schema":
            raise SpecError(
                where=where, needed="a key of a frame", got=repr(key), hint=nearest(str(key), _RECIPE_KEYS)
            )
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
    """Return the plan for a settled stack and its sweeps, ``{"cnm.qntz_fb": "0..63"}``.

    ``options`` are the plan's own.  SpecError for an unknown field or one given as well as swept,
    EncodeError for a value that does not fit.
    """
    axes = []
    for name, values in sweeps.items():
        part, field = located(stack, name, raw=bool(options.get("raw")))
        axis = axis_of(part, field, values, random)
        part.give(field, axis.at(0))
        axes.append(axis)
    plan = Plan(stack=stack, axes=tuple(axes), **options)
    plan.finished()
    return plan


def located(stack: Stack, name: str, *, raw: bool) -> tuple[Part, Field]:
    """Return the layer and field a sweep means, also in a layer that the frame gets by default."""
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
