"""Type checks of documents from an untrusted folder of results.

`ecmproto.paths.path_below` checks the file names in these documents.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any, BinaryIO, Literal, get_args, get_origin, get_type_hints, is_typeddict

from ecmproto.errors import SpecError, shown

_LINE_OCTETS = 64 << 20
"""Maximum length of a line in bytes, enough for the results of a capture in 400,000 parts."""
_NUMBER_BOUND = 1 << 63


# Documents ------------------------------------------------------------------------------------------------


def lines_of(file: BinaryIO, where: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises SpecError for a line longer than the maximum."""
    while line := file.readline(_LINE_OCTETS):
        if len(line) == _LINE_OCTETS:
            raise SpecError(
                where=where, needed=f"lines of up to {_LINE_OCTETS >> 20} MiB", got="a longer one"
            )
        yield line


def table_of(line: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in a line. Raises SpecError for anything else."""
    with suppress(ValueError, RecursionError):
        document = json.loads(line)
        if isinstance(document, dict):
            return document
    raise SpecError(where=where, needed="a table in JSON", got=shown(line[:60].decode(errors="replace")))


_hints_of = functools.cache(get_type_hints)


def checked(value: Any, kind: Any, where: str) -> Any:
    """Return plain data if its type is ``kind``. Otherwise raise SpecError with the position.

    ``kind`` is an annotation: a dataclass or typed dict for a JSON object, a mapping of text, a sequence,
    ``... | None``, a literal, text, bytes for base64 text, or a finite number of 64 bits.
    """
    origin, of = get_origin(kind) or kind, get_args(kind)
    if NoneType in of:
        if value is None or any(_is_single(value, each) for each in of[1:-1]):
            return value
        return checked(value, of[0], where)
    inner: Iterable[tuple[Any, Any, Any]] = ()
    needed = str(getattr(kind, "__name__", kind))
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        hints = _hints_of(kind)
        required = getattr(kind, "__required_keys__", hints.keys())
        needed = f"a table of {', '.join(sorted(required))}"
        fits = isinstance(value, dict) and required <= value.keys() <= hints.keys()
        inner = ((name, value[name], hints[name]) for name in value) if fits else ()
    elif origin is Mapping:
        fits = isinstance(value, dict)
        inner = ((name, each, of[1]) for name, each in value.items()) if fits else ()
    elif origin is Sequence or of[1:] == (Ellipsis,):
        fits = isinstance(value, list | tuple)
        inner = ((number, each, of[0]) for number, each in enumerate(value)) if fits else ()
    elif origin is tuple:
        fits = isinstance(value, list | tuple) and len(value) == len(of)
        inner = zip(range(len(of)), value, of, strict=True) if fits else ()
    else:
        fits = value in of if origin is Literal and isinstance(value, str) else _is_single(value, kind)
    if not fits:
        raise SpecError(where=where, needed=needed, got=shown(value))
    for key, each, key_kind in inner:
        checked(each, key_kind, f"{where}, {shown(key)}")
    return value


def _is_single(value: Any, kind: Any) -> bool:
    """Return whether a value has the type ``kind``, which has no elements."""
    if kind is bytes:
        with suppress(ValueError):
            return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
        return False
    if isinstance(value, float) or (kind is float and type(value) is int):
        return kind is float and abs(value) < _NUMBER_BOUND
    if kind is Any:
        return True
    return type(value) is kind and (kind is not int or abs(value) < _NUMBER_BOUND)
