"""All errors of ecmproto. Each error has attributes, and a message of one sentence.

``EcmprotoError`` is the base class of all errors. Public functions raise no other exceptions for invalid
input. ``CacheWarning`` is the category of warnings about cached code.
"""

from __future__ import annotations

import functools
import re
import reprlib
import unicodedata
import warnings
from collections.abc import Iterable
from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True, eq_default=False)
class EcmprotoError(Exception):
    """Base class of the project's errors. ``str(error)`` is one sentence for users.

    The annotations of a class declare its attributes, which are keyword arguments of the constructor. Errors
    are equal if their types and attributes are equal. Errors can be copied and pickled.
    """

    def __init__(self, **given: Any) -> None:
        kinds = [cls for cls in reversed(type(self).__mro__) if issubclass(cls, EcmprotoError)]
        names = [name for cls in kinds for name in cls.__annotations__]
        for name in names:
            if name not in given and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__}: expected {name}")
            setattr(self, name, given.pop(name, getattr(type(self), name, None)))
        if given:
            raise TypeError(f"{type(self).__name__}: expected {', '.join(names)}, got {', '.join(given)}")
        super().__init__(*(getattr(self, name) for name in names))

    def __reduce__(self) -> tuple[object, ...]:
        attributes = {name: value for name, value in vars(self).items() if name != "__notes__"}
        return functools.partial(type(self), **attributes), ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class DecodeError(EcmprotoError):
    """Octets that are invalid for their format.

    ``layer`` is the short name of the format, ``offset`` is the offset of the missing or wrong octets in the
    frame, ``needed`` is the expectation of the format, and ``got`` describes the octets found.
    """

    layer: str
    offset: int
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.layer} at octet {self.offset}: expected {self.needed}, got {self.got}"


class EncodeError(EcmprotoError):
    """A value out of range for its field.

    ``layer`` and ``field`` name the field, ``needed`` is the range of the field, and ``got`` is the value.
    """

    layer: str
    field: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.field}: expected {self.needed}, got {self.got}"


class RecordError(EncodeError):
    """A time or length that the records of a capture format cannot represent."""


class ColumnError(EncodeError):
    """A column, or one row of a column, that is invalid for its field.

    ``layer`` and ``field`` are the parts of the column's name before and after the first dot. ``row`` counts
    from 0, and is None if the whole column is invalid. ``needed`` and ``got`` have the same meaning as in
    EncodeError.
    """

    row: int | None = None

    def __str__(self) -> str:
        return super().__str__() + ("" if self.row is None else f" in row {self.row}")


class CaptureError(EcmprotoError):
    """A capture file that cannot be read any further, or frames that a capture format cannot contain.

    ``path`` names the file. ``offset`` is the offset of the error in the uncompressed file. ``frame`` is the
    number of complete frames before the error. ``needed`` and ``got`` have the same meaning as in
    DecodeError. The message has no offset if the file does not begin like a capture.
    """

    path: str
    offset: int
    frame: int
    needed: str
    got: str

    def __str__(self) -> str:
        location = f" at octet {self.offset}, after {counted(self.frame, 'frame')}:" if self.offset else ""
        return f"{self.path}:{location} expected {self.needed}, got {self.got}"

    def as_dict(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain data."""
        return {name: getattr(self, name) for name in ("path", "offset", "frame", "needed", "got")}

    def counted_on(self, frames: int) -> CaptureError:
        """Return the error of a part as an error of the whole capture, with ``frames`` frames before the
        part.
        """
        return CaptureError(**{**self.as_dict(), "frame": self.frame + frames})


class InterfaceGoneError(CaptureError):
    """An interface that was removed during a capture. The attributes are CaptureError's."""


class MethodError(EcmprotoError):
    """An exception in a method of a mechanism: ``got`` was raised at ``line`` of the file ``path``."""

    method: str
    path: str
    line: int
    got: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.method} raised {self.got}"


class OutputError(EcmprotoError):
    """An output that cannot be written. ``path`` names the output; ``needed`` and ``got`` give the reason."""

    path: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.needed}, got {self.got}"


class OutputExistsError(OutputError):
    """An output that already exists. ``force=True`` replaces existing outputs."""


class InterfaceError(EcmprotoError):
    """A network interface that is missing, not permitted, or lacks a required capability.

    ``interface`` names the interface. ``needed`` and ``got`` have the same meaning as in the other errors.
    ``hint`` is the closest valid name, and ``remedy`` is a command that helps. Both may be empty.
    """

    interface: str
    needed: str
    got: str
    hint: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        tail = f" ({self.hint})" if self.hint else ""
        return f"{self.interface}: expected {self.needed}, got {self.got}{tail}"


class ExecutorError(EcmprotoError):
    """Processes or a cluster that cannot be used.

    ``where`` names the option or host. ``needed`` and ``got`` have the same meaning as in the other errors.
    ``remedy`` describes a remedy, or is empty.
    """

    where: str
    needed: str
    got: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: expected {self.needed}, got {self.got}"


_LONGEST_SHOWN = 120


def _short(text: str) -> str:
    """Return ``text`` shortened for a sentence: its start, its end and its length."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = _LONGEST_SHOWN // 3
    return f"{text[:half]}…{text[-half:]} ({len(text)} characters)"


class ParameterError(EcmprotoError):
    """A parameter outside its documented range.

    ``name`` names the parameter, ``needed`` is its range with the unit, and ``got`` is the value.
    """

    name: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.name}: expected {self.needed}, got {_short(self.got)}"


class CompileError(EcmprotoError):
    """A method of a mechanism that cannot be compiled.

    ``path`` and ``line`` locate the error in the source, ``method`` is the method's name, and ``got`` is the
    reason.
    """

    path: str
    line: int
    method: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.method} cannot be compiled: {self.got}"


class FilterError(EcmprotoError):
    """An invalid display filter, or one that compares values of incompatible types.

    ``filter`` is the whole text. The characters from ``start`` to ``stop`` (exclusive) are wrong. ``needed``
    and ``got`` have the same meaning as in the other errors. ``hint`` is the closest valid name, or empty.
    After the sentence, the message shows the filter with carets below the wrong characters.
    """

    filter: str
    start: int
    stop: int
    needed: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        tail = f" ({self.hint})" if self.hint else ""
        text = f"filter at character {self.start + 1}: expected {self.needed}, got {self.got}{tail}"
        return f"{text}\n{pointed(self.filter, self.start, self.stop)}"


class SpecError(EcmprotoError):
    """An invalid frame specification (command line, TOML or JSON).

    ``where`` is the position in the specification. ``needed`` and ``got`` have the same meaning as in the
    other errors. ``hint`` is the closest valid name, or empty.
    """

    where: str
    needed: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        tail = f" ({self.hint})" if self.hint else ""
        return f"{self.where}: expected {self.needed}, got {self.got}{tail}"


class MissingDependencyError(EcmprotoError):
    """An optional dependency that is not installed.

    ``package`` is the missing package, ``extra`` is the extra of this project that installs the package, or
    "", and ``purpose`` is the feature that needs the package.
    """

    package: str
    extra: str
    purpose: str

    @property
    def remedy(self) -> str:
        """The command that installs the dependency."""
        return pip_install(self.extra) if self.extra else f"pip install {self.package}"

    def __str__(self) -> str:
        return f"{self.purpose}: expected {self.package}, which is not installed"


def pip_install(extra: str) -> str:
    """Return the command that adds an extra to this installation, by its folder, file or name."""
    import importlib.metadata
    import json
    from urllib.parse import unquote

    try:
        text = importlib.metadata.distribution("ecmproto").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    origin = json.loads(text) if text else {}
    url = origin.get("url", "")
    if "dir_info" in origin and url.startswith("file://"):
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(url.removeprefix('file://'))}[{extra}]'"
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"pip install 'ecmproto[{extra}]{f' @ {url}' if url else ''}'"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 frame``, ``2 frames``."""
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100


def shown(value: object) -> str:
    """Return the repr of a value for a sentence. A long repr is shortened in the middle."""
    return _REPR.repr(value)


_SIMILAR_NAMES, _MIN_SIMILARITY = 5, 0.5  # two letters of which one differs
_LISTED_NAMES, _FIRST_NAMES = 24, 6


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name nearest to ``name``, or "" if none is near.

    A name that differs only in case is nearest. Next are names that end with ``name`` after a dot, then names
    with a similar spelling, then names that begin with ``name``.
    """
    import difflib

    names, word = list(known), name.casefold()
    near = [each for each in names if f".{each.casefold()}".endswith(f".{word}")][:1]
    near = near or difflib.get_close_matches(name, names, n=_SIMILAR_NAMES, cutoff=_MIN_SIMILARITY)
    near = near or [each for each in names if word and each.casefold().startswith(word)][:1]

    def rank(each: str) -> tuple[float, int, int]:
        ends = (each[:1] == name[:1]) + (each[-1:] == name[-1:])
        return difflib.SequenceMatcher(None, each, name).ratio(), ends, -names.index(each)

    # of equally similar names, one with the same first and last character, then the first in the list
    return max(near, key=rank, default="")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name nearest to ``name``; empty if none is near."""
    near = nearest_name(name, known)
    return f"did you mean {near!r}?" if near else ""


def hint_on_name(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name nearest to ``name``, or with all or the first known names."""
    names = sorted(known) if isinstance(known, set | frozenset) else list(known)
    listed = names if len(names) <= _LISTED_NAMES else names[:_FIRST_NAMES]
    more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    return did_you_mean(name, names) or (f"one of {', '.join(listed)}{more}" if names else "")


_NOT_PLAIN = re.compile(r"[^ -~]")


def escaped(text: str, *, keep: str = "") -> str:
    """Return text with unprintable characters escaped as in JSON, except the characters in ``keep``."""
    if (text.replace("\n", "") if "\n" in keep else text).isprintable():
        return text
    return _NOT_PLAIN.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def printable(text: str) -> str:
    """Return text with spaces for white space, and a sign of equal width for each unprintable character."""
    if text.isprintable():
        return text
    return "".join(
        " " if char.isspace() else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


_POINTED_CHARACTERS = 50
"""Maximum number of characters shown before, at and after an error in a long line."""


def pointed(text: str, start: int, stop: int) -> str:
    """Return the line of ``text`` around ``start``, and a line with carets below ``start`` to ``stop``.

    A long line is truncated at both ends. Control characters become replacement characters.
    """
    first = max(0, start - _POINTED_CHARACTERS)
    stop = min(max(stop, start + 1), start + _POINTED_CHARACTERS)
    last = stop + _POINTED_CHARACTERS
    parts = (text[first:start], text[start:stop], text[stop:last])
    before, marked, rest = map(printable, parts)
    before, rest = "…" * (first > 0) + before, rest + "…" * (last < len(text))
    carets = "^" * max(1, _columns(marked))
    return f"  {before}{marked}{rest}".rstrip() + f"\n  {' ' * _columns(before)}{carets}"


def _columns(text: str) -> int:
    """Return the width of ``text`` in terminal columns."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


class PluginWarning(UserWarning):
    """A warning about a format or mechanism of another package that cannot be used and is skipped."""


def plugin_text(entry: Any) -> str:
    """Return a description of an entry point: its distribution and its value."""
    whose = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"the entry point {entry.value}{whose}"


def warn_of_plugin(entry: Any, got: str) -> None:
    """Warn that the object of an entry point is skipped."""
    sentence = f"{entry.name}, {plugin_text(entry)}, is left out: {got}"
    warnings.warn(sentence, PluginWarning, stacklevel=2)


class CacheWarning(UserWarning):
    """A warning about compiled code that is not loaded or not stored, because other users could have written
    it.
    """
