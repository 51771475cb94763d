"""The fast one-frame codec: Python functions generated from the walk over a schema.

construct itself parses some 20–50 thousand headers a second; these functions read and write the same
fields a few times faster, and a test holds every one of them to its construct schema, both ways.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Any

from ecmproto.errors import EncodeError
from ecmproto.formats.layer import Layer
from ecmproto.formats.layout import Field

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}

Parse = Callable[[bytes, int, int], tuple[Layer, int, int] | None]
Build = Callable[[Layer], bytes]


def generate(cls: type[Layer]) -> tuple[int, Parse, Build]:
    """Return a format's ``(fixed_octets, parse, build)``; see `Layer`."""
    fields = cls.layout
    fixed = [field for field in fields if field.bits is not None]
    tail = fields[-1] if fields[-1].bits is None else None
    words = _words(fixed)
    codes = struct.Struct(">" + "".join(_code(word) for word in words))
    # slotted classes: setting through the slot skips the frozen dataclass's __init__
    names = {f"set_{field.key}": getattr(cls, field.key).__set__ for field in fields}
    scope: dict[str, Any] = names | {
        "unpack": codes.unpack_from,
        "pack": codes.pack,
        "new": object.__new__,
        "cls": cls,
        "int_from": int.from_bytes,
        "index": operator.index,
        "explain": _explain(fields),
        "error": struct.error,
    }
    exec(_parse_source(words, codes.size, tail) + _build_source(words, tail), scope)
    return codes.size, staticmethod(scope["parse"]), scope["build"]


def _words(fields: list[Field]) -> list[list[Field]]:
    """Return the fields grouped into what one struct code reads: alone, or a run of sub-octet ones."""
    words: list[list[Field]] = []
    run = 0
    for field in fields:
        assert field.bits is not None
        if run % 8:
            words[-1].append(field)
            run += field.bits
        else:
            words.append([field])
            run = field.bits
    return words


def _width(word: list[Field]) -> int:
    return sum(field.bits or 0 for field in word)


def _code(word: list[Field]) -> str:
    width = _width(word)
    if width not in _CODES or (len(word) == 1 and not word[0].is_number):
        return f"{width // 8}s"
    code = _CODES[width]
    return code.lower() if word[0].kind == "sint" else code


def _parse_source(words: list[list[Field]], octets: int, tail: Field | None) -> str:
    lines = ["def parse(data, start, stop):", f" if stop - start < {octets}: return None"]
    if words:
        lines.append(f" {''.join(f'w{i}, ' for i in range(len(words)))} = unpack(data, start)")
    lines.append(" self = new(cls)")
    for i, word in enumerate(words):
        if len(word) == 1 and not word[0].is_number:
            lines.append(f" set_{word[0].key}(self, w{i})")
            continue
        if _code(word).endswith("s"):
            lines.append(f" w{i} = int_from(w{i}, 'big')")
        shift = _width(word)
        for field in word:
            shift -= field.bits or 0
            part = f"w{i} >> {shift} & {field.maximum}" if len(word) > 1 else f"w{i}"
            lines.append(f" set_{field.key}(self, {part})")
    lines.append(f" end = start + {octets}")
    if tail is None:
        lines.append(" return self, end, 0")
    else:
        lines += _tail_source(tail)
    return "\n".join(lines) + "\n"


def _tail_source(tail: Field) -> list[str]:
    count = tail.count
    assert count is not None
    length = f"max(0, self.{count.key} * {count.scale} - {count.minus})" if count.key else "stop - end"
    if count.when:
        length = f"{length} if self.{count.when[0]} in {count.when[1]!r} else 0"
    return [
        f" last = end + ({length})",
        " missing = last - stop",
        " if missing > 0: last = stop",
        " else: missing = 0",
        f" set_{tail.key}(self, data[end:last])",
        " return self, last, missing",
    ]


def _build_source(words: list[list[Field]], tail: Field | None) -> str:
    lines = ["def build(self):", " try:"]
    parts = []
    for i, word in enumerate(words):
        if len(word) == 1 and not word[0].is_number:
            lines += [f"  w{i} = self.{word[0].key}", f"  if len(w{i}) != {_width(word) // 8}: explain(self)"]
        else:
            lines += _pack_source(i, word)
        parts.append(f"w{i}")
    rest = f" + bytes(memoryview(self.{tail.key}))" if tail else ""
    lines.append(f"  return pack({', '.join(parts)}){rest}")
    lines += [" except (error, TypeError, ValueError):", "  explain(self)", "  raise"]
    return "\n".join(lines) + "\n"


def _pack_source(i: int, word: list[Field]) -> list[str]:
    """Return the lines that range-check a word's fields and shift them together.

    A number of a fixed width (numpy's) would lose its upper bits in the shift, so each becomes an int
    first; struct does the same for a number that has a code of its own.
    """
    lines, terms = [], []
    shift = _width(word)
    alone = len(word) == 1 and not _code(word).endswith("s")
    for field in word:
        shift -= field.bits or 0
        lines.append(f"  if not {field.minimum} <= self.{field.key} <= {field.maximum}: explain(self)")
        number = f"self.{field.key}" if alone else f"index(self.{field.key})"
        terms.append(f"{number} << {shift}" if shift else number)
    joined = " | ".join(terms)
    if _code(word).endswith("s"):
        joined = f"({joined}).to_bytes({_width(word) // 8}, 'big')"
    return [*lines, f"  w{i} = {joined}"]


def _explain(fields: tuple[Field, ...]) -> Callable[[Layer], None]:
    """Return the function that names the first field whose value the format cannot hold."""

    def explain(value: Layer) -> None:
        for field in fields:
            got = getattr(value, field.key)
            shown = repr(got)
            if field.is_number:
                if _is_in_range(got, field):
                    continue
                needed = f"an integer in {field.minimum}..{field.maximum}"
            elif field.bits is None:
                if isinstance(got, bytes | bytearray | memoryview):
                    continue
                needed = "octets"
            elif isinstance(got, bytes | bytearray):
                if len(got) == field.bits // 8:
                    continue
                needed, shown = f"{field.bits // 8} octets", f"{len(got)} octets"
            else:
                needed = f"{field.bits // 8} octets"
            raise EncodeError(
                layer=value.prefix,
                field=field.key,
                needed=needed,
                got=shown,
            )

    return explain


def _is_in_range(value: Any, field: Field) -> bool:
    try:
        return field.minimum <= operator.index(value) <= field.maximum
    except TypeError:
        return False
