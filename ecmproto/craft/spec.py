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

TOML is read within bounds.  JSON is read in pieces: of one document with a long list of frames, or one
document a line, only the frame at hand is ever in memory, beside what stands outside the list.  Nothing is
guessed: duplicate keys, NaN, nesting without end and broken text are refused with their place.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import IO, Any

import numpy as np

from ecmproto.codec.document import frame_keys, from_document, layer_from, nearest
from ecmproto.codec.frame import encode
from ecmproto.craft.builders import complete, put_right
from ecmproto.craft.expectations import Expectation, Side, expectations_from
from ecmproto.craft.recipe import (
    MAX_INTERFACES,
    MAX_TIME_NS,
    CaptureInfo,
    Chunk,
    Recipe,
    Spacing,
    capture_info,
    integer,
    is_text,
    placed,
    rate_of,
    time_of,
)
from ecmproto.craft.stack import Part, Stack, stack_from_line
from ecmproto.craft.sweep import Plan, axis_of
from ecmproto.dissect.json import FRAME_SCHEMA, FRAMES_SCHEMA, RECORD_KEYS
from ecmproto.errors import SpecError, counted, escaped, shown
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.schema import Field


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A frame's octets and the data of its record, as in `Chunk`."""

    octets: bytes
    time_ns: int
    original: int
    interface: int
    linktype: int
    comments: tuple[str, ...]

    def goes_with(self, other: Exact) -> bool:
        """Return whether both fit into one chunk, this one first."""
        same = (self.interface, self.linktype) == (other.interface, other.linktype)
        return same and not self.comments


def chunk_of(frames: list[Exact]) -> Chunk:
    """Return frames that go together as one chunk."""
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
    """Return a frame as its document has it, put right only when asked to ``fix`` it.

    Its interface is described in ``capture``.  SpecError with ``where`` for what no frame can be.
    """
    for key in item:
        if key not in RECORD_KEYS and key not in frame_keys():
            hint = nearest(str(key), RECORD_KEYS | frame_keys())
            raise SpecError(where=where, needed="a key of a frame", got=repr(key), hint=hint)
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
    if captured != len(octets):  # a value was changed by hand: what was cut off stays cut off
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
    """Return the time of a captured frame, of those that a capture can hold the nearest."""
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
    """How specifications are read: the EtherType map, whether exact frames are put right, the randomness."""

    ethertypes: EtherTypes = DEFAULT
    exact: bool = False
    """Take every frame with layers as it stands."""
    fix: bool = False
    """Compute the types, lengths and checksums of frames taken as they stand, and pad them."""
    random: Random = dataclasses.field(default_factory=lambda: Random(0))
    capture: CaptureInfo = dataclasses.field(default_factory=CaptureInfo)
    """What the document says of its capture, once its frames are being read."""


def read_toml(
    stream: IO[bytes], name: str, reading: Reading, *, side: Side = "near"
) -> Iterator[Recipe | Chunk]:
    """Yield the frames of a TOML specification that leave by ``side``; SpecError where something is wrong."""
    document = read_document(stream, name)
    known = ("schema", "frames", "expect")
    for key in document:
        if key not in known:
            raise SpecError(
                where=name, needed="schema, frames and expect", got=repr(key), hint=nearest(key, known)
            )
    expectations_from(document.get("expect", []), name)
    _check_schema(document.get("schema", FRAMES_SCHEMA), name)
    frames = document.get("frames", [])
    if not isinstance(frames, list):
        raise SpecError(where=name, needed="[[frames]], one for each", got=shown(frames))
    named = ((f"{name}: frames[{place}]", item) for place, item in enumerate(frames))
    return _items(_of_side(named, side), reading)


def _of_side(items: Iterable[tuple[str, Any]], side: Side) -> Iterator[tuple[str, Any]]:
    """Yield the items that leave by ``side``, without its name; near is what is not said otherwise."""
    for where, item in items:
        if isinstance(item, Mapping) and "side" in item:
            if item["side"] not in ("near", "far"):
                raise SpecError(where=f"{where}.side", needed="near or far", got=shown(item["side"]))
            if item["side"] == side:
                yield where, {key: value for key, value in item.items() if key != "side"}
        elif side == "near":
            yield where, item


def read_expectations(stream: IO[bytes], name: str) -> list[Expectation]:
    """Return the expectations of a TOML specification; errors as `read_toml` and `expectations_from`."""
    return expectations_from(read_document(stream, name).get("expect", []), name)


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
    """Yield the recipe of each item; frames taken as they stand are gathered into chunks."""
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


_CHUNK = 1 << 20
MAX_VALUE_CHARACTERS = 8 << 20
"""The longest single value (a frame, say) that is read; in memory it may take some twenty times as much."""

_SPACE = " \t\r\n"
_NUMBER = re.compile(r"[0-9.eE+-]*")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _RefusedError("each key once", f"{twice!r} twice")
    return found


def _constant(text: str) -> None:
    raise _RefusedError("a number that JSON has", text)


class _RefusedError(ValueError):
    def __init__(self, needed: str, got: str) -> None:
        super().__init__(needed, got)
        self.needed, self.got = needed, got


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


class JsonStream:
    """The values in a text stream, one after the other; SpecError for what is no JSON.

    `name` is what the stream is called in errors.
    """

    def __init__(self, stream: IO[str], name: str) -> None:
        self._stream = stream
        self._name = name
        self._text = ""
        self._at = 0
        self._lines = 1
        self._passed = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The characters used up."""
        return self._passed + self._at

    def peek(self) -> str:
        """Return the next character that is no white space, "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def expect(self, wanted: str) -> str:
        """Use up the next character, which is one of ``wanted``."""
        found = self.peek()
        if not found or found not in wanted:
            names = " or ".join(repr(each) for each in wanted)
            raise self.error(names, repr(found) if found else "the end of the text")
        self._at += 1
        return found

    def value(self) -> Any:
        """Use up the next value and return it."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                if self._ended or not self._may_go_on(end):
                    self._at = end
                    return value
                if not self._more():
                    continue
            except json.JSONDecodeError as error:
                if not self._more():
                    self._at = min(error.pos, len(self._text))
                    raise self.error("JSON", error.msg) from None
            except _RefusedError as refused:
                raise self.error(refused.needed, refused.got) from None
            except RecursionError:
                raise self.error("values nested less than a thousand deep", "deeper nesting") from None
            except ValueError:  # more digits than Python reads
                raise self.error("numbers of at most 4,300 digits", "a longer one") from None

    def _may_go_on(self, end: int) -> bool:
        """Return whether the text read so far may end in the middle of a number: 1 | .5e | 3."""
        rest = _NUMBER.match(self._text, end)
        return rest is not None and rest.end() == len(self._text)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that starts here; the caller uses up each value."""
        self.expect("{")
        seen: set[str] = set()
        while self.peek() != "}" or seen:
            key = self.value() if self.peek() == '"' else None
            if key is None:
                raise self.error(
                    "a key in quotes", repr(self.peek()) if self.peek() else "the end of the text"
                )
            if key in seen:
                raise self.error("each key once", f"{key!r} twice")
            seen.add(key)
            self.expect(":")
            yield key
            if self.expect(",}") == "}":
                return
        self.expect("}")

    def items(self) -> Iterator[Any]:
        """Yield the values of the list that starts here."""
        self.expect("[")
        if self.peek() == "]":
            self.expect("]")
            return
        while True:
            yield self.value()
            if self.expect(",]") == "]":
                return

    def starts_with(self, pattern: Any) -> bool:
        """Return whether a compiled pattern matches what comes next."""
        self.peek()
        return pattern.match(self._text, self._at) is not None

    def error(self, needed: str, got: str) -> SpecError:
        """Return the error for the text at this position."""
        line = self._lines + self._text.count("\n", 0, self._at)
        return SpecError(where=f"{self._name}, line {line}", needed=needed, got=got)

    def _more(self) -> bool:
        """Read on; return False at the end.  Text that was used is dropped."""
        if self._ended:
            return False
        if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
            raise self.error(f"values of at most {MAX_VALUE_CHARACTERS >> 20} Mi characters", "a longer one")
        try:
            # doubling keeps a long value, tried again each time, linear
            piece = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        except UnicodeDecodeError as error:
            raise self.error("text in UTF-8", f"octet {error.object[error.start]:#04x}") from None
        self._ended = not piece
        self._lines += self._text.count("\n", 0, self._at)
        self._passed += self._at
        self._text = self._text[self._at :] + piece
        self._at = 0
        return bool(piece)


MAX_OCTETS = 16 << 20
"""In a document, which is read as a whole, and takes some twenty times as much memory."""
MAX_KEY_PARTS = 64
"""Parts with dots between them in one key: what each of them costs grows with their number."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_TOKEN = "|".join(
    (
        r'"""(?:[^\\]|\\.)*?(?:"""|\z)', r"'''.*?(?:'''|\z)", r"#[^\n]*",
        rf"(?P<key>{_PART}(?:[ \t]*\.[ \t]*{_PART})+)", r'"(?:[^"\\\n]|\\.)*"', r"'[^'\n]*'",
    )
)  # fmt: skip
"""Where dots may stand: in text and comments, which go unseen, and in keys and numbers."""


def read_document(stream: IO[bytes], name: str) -> dict[str, Any]:
    """Return a TOML document; SpecError if it is invalid, too large or too deeply nested."""
    octets = stream.read(MAX_OCTETS + 1)
    if len(octets) > MAX_OCTETS:
        needed = f"a TOML document of at most {MAX_OCTETS >> 20} MiB, or JSON, which is read frame by frame"
        raise SpecError(where=name, needed=needed, got="a larger one")
    try:
        text = octets.decode()
        _check_keys(text, name)
        return tomllib.loads(text)
    except RecursionError:
        raise SpecError(where=name, needed="a TOML document", got="nesting without end") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(where=name, needed="a TOML document", got=str(error)) from None
    except ValueError:  # more digits than Python reads
        raise SpecError(where=name, needed="numbers of at most 4,300 digits", got="a longer one") from None


def _check_keys(text: str, name: str) -> None:
    """Refuse keys of too many parts."""
    if not any(line.count(".") >= MAX_KEY_PARTS for line in text.splitlines()):
        return
    # an engine without backtracking, whose import only such lines are worth
    import re2

    options = re2.Options()
    options.dot_nl = True
    for found in re2.compile(_TOKEN, options).finditer(text):
        parts = (found["key"] or "").count(".") + 1
        if parts > MAX_KEY_PARTS:
            line = text.count("\n", 0, found.start()) + 1
            needed = f"keys of at most {MAX_KEY_PARTS} parts"
            raise SpecError(where=f"{name}: line {line}", needed=needed, got=counted(parts, "part"))


def toml_of(items: Iterable[Mapping[str, Any]], expectations: Iterable[Expectation] = ()) -> Iterator[str]:
    """Yield the text of a specification with these items and expectations, piece by piece.

    Values are text, integers, booleans and mappings of these.
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
