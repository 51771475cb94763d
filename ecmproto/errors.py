"""Every error ecmproto raises: attributes first, one English sentence out.

``EcmprotoError`` is the root; catch it to catch them all.  Nothing else escapes the public
functions for bad input.  ``CacheWarning`` is what warnings are filtered by.
"""

from __future__ import annotations

import functools
import re
import reprlib
import unicodedata
import warnings
from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True, eq_default=False)
class EcmprotoError(Exception):
    """Root of the project's errors; ``str(error)`` is one sentence for a person.

    The annotations of a class are its attributes, arguments by name.  Two errors of one type with the same
    attributes are equal, and errors can be copied and pickled.
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
    """Octets that are not valid for their format.

    ``layer`` is the short name of the format being read, ``offset`` the offset of the missing or
    wrong octets in the frame, ``needed`` and ``got`` the expectation of the format and the octets found.
    """

    layer: str
    offset: int
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.layer} at octet {self.offset}: expected {self.needed}, got {self.got}"


class EncodeError(EcmprotoError):
    """A value that its format cannot hold.

    ``layer`` and ``field`` name the field, ``needed`` its range, ``got`` the value given.
    """

    layer: str
    field: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.field}: expected {self.needed}, got {self.got}"


class RecordError(EncodeError):
    """A time or a length that the records of a capture cannot hold."""


class ColumnError(EncodeError):
    """A column that its field cannot hold, as a whole or in one row.

    ``layer`` and ``field`` are the column's name before and after its first dot, ``row`` counts from
    0 and is None where the column as a whole is wrong; ``needed`` and ``got`` as in EncodeError.
    """

    row: int | None = None

    def __str__(self) -> str:
        return super().__str__() + ("" if self.row is None else f" in row {self.row}")


class CaptureError(EcmprotoError):
    """A capture file that cannot be read on, or frames that a capture file cannot hold.

    ``path`` names the file, ``offset`` the octet of the (uncompressed) file where the trouble starts,
    ``frame`` the number of whole frames read before it; ``needed`` and ``got`` as in DecodeError.  The
    message has no offset where the file is no capture from its first octet on.
    """

    path: str
    offset: int
    frame: int
    needed: str
    got: str

    def __str__(self) -> str:
        place = f" at octet {self.offset}, after {counted(self.frame, 'frame')}:" if self.offset else ""
        return f"{self.path}:{place} expected {self.needed}, got {self.got}"

    def as_dict(self) -> dict[str, Any]:
        """Return the arguments that it is made with, which are plain data."""
        return {name: getattr(self, name) for name in ("path", "offset", "frame", "needed", "got")}

    def counted_on(self, frames: int) -> CaptureError:
        """Return the error of a part as one of its capture: ``frames`` come before the part."""
        return CaptureError(**{**self.as_dict(), "frame": self.frame + frames})


class InterfaceGoneError(CaptureError):
    """An interface that was removed while it was captured from: attributes as of a file."""


class MethodError(EcmprotoError):
    """An exception in a method of a mechanism's machine: ``got``, raised at ``line`` of the file ``path``."""

    method: str
    path: str
    line: int
    got: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.method} raised {self.got}"


class OutputError(EcmprotoError):
    """An output that cannot be written: its ``path``, and the reason in ``needed`` and ``got``."""

    path: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.needed}, got {self.got}"


class OutputExistsError(OutputError):
    """An output whose name is taken, and that was not to be replaced: ``force=True`` does that."""


class InterfaceError(EcmprotoError):
    """A network interface that is missing, not permitted, or without a required capability.

    ``interface`` names it, ``needed`` and ``got`` as in the other errors, ``hint`` the nearest thing that
    would be right, or empty.  ``remedy`` is the command that would help, or empty.
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
    """Processes, or a cluster, that cannot be worked with.

    ``where`` names the option or host, ``needed`` and ``got`` as in the other errors, ``remedy`` the help
    that is possible, or empty.
    """

    where: str
    needed: str
    got: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: expected {self.needed}, got {self.got}"


_LONGEST_SHOWN = 120


def _short(text: str) -> str:
    """Return ``text`` short enough for a sentence: its beginning and end, and its length."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = _LONGEST_SHOWN // 3
    return f"{text[:half]}…{text[-half:]} ({len(text)} characters)"


class ParameterError(EcmprotoError):
    """A parameter outside its documented range.

    ``name`` is the parameter, ``needed`` its range and unit, ``got`` the value given.
    """

    name: str
    needed: str
    got: str

    def __str__(self) -> str:
        return f"{self.name}: expected {self.needed}, got {_short(self.got)}"


class CompileError(EcmprotoError):
    """A method of a mechanism that cannot be compiled.

    ``path`` and ``line`` locate it in its source, ``method`` is its name, ``got`` the reason.
    """

    path: str
    line: int
    method: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.method} cannot be compiled: {self.got}"


class FilterError(EcmprotoError):
    """A display filter that cannot be understood, or that compares what cannot be compared.

    ``filter`` is the whole text, ``start`` and ``stop`` (exclusive) the characters of it that are wrong;
    ``needed`` and ``got`` as in the other errors, ``hint`` the nearest thing that would be right, or empty.
    The sentence is followed by the filter with carets under these characters.
    """

    filter: str
    start: int
    stop: int
    needed: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        tail = f" ({self.hint})" if self.hint else ""
        told = f"filter at character {self.start + 1}: expected {self.needed}, got {self.got}{tail}"
        return f"{told}\n{pointed(self.filter, self.start, self.stop)}"


class SpecError(EcmprotoError):
    """An invalid frame specification (command line, TOML or JSON).

    ``where`` is the place in the specification, ``needed`` and ``got`` as in the other errors,
    ``hint`` the nearest thing that would be right, or empty.
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

    ``package`` is what is missing, ``extra`` the extra of this project that brings it ("": none does),
    ``purpose`` what needs it.
    """

    package: str
    extra: str
    purpose: str

    @property
    def remedy(self) -> str:
        """The command to type."""
        return pip_install(self.extra) if self.extra else f"pip install {self.package}"

    def __str__(self) -> str:
        return f"{self.purpose}: expected {self.package}, which is not installed"


def pip_install(extra: str) -> str:
    """Return the command that adds an extra to this installation: from its folder or file, else by name."""
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
    return f"pip install 'ecmproto[{extra}]{f' @ {url}' if url else ''}'"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 frame``, ``2 frames``."""
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100


def shown(value: object) -> str:
    """Return the repr of a given value for a sentence, a long one cut in the middle."""
    return _REPR.repr(value)


_NOT_PLAIN = re.compile(r"[^ -~]")


def escaped(text: str, *, keep: str = "") -> str:
    """Return text with characters that are not printable escaped as in JSON, but for those to ``keep``."""
    if (text.replace("\n", "") if "\n" in keep else text).isprintable():
        return text
    return _NOT_PLAIN.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def printable(text: str) -> str:
    """Return text with white space as spaces and a sign of the same width for what is not printable."""
    if text.isprintable():
        return text
    return "".join(
        " " if char.isspace() else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


_POINTED_CHARACTERS = 50
"""Characters of a long line that are shown before, at and after an error."""


def pointed(text: str, start: int, stop: int) -> str:
    """Return the line of ``text`` around ``start`` and, below it, carets under ``start`` to ``stop``.

    A long line is cut on both sides; control characters become replacement characters.
    """
    first = max(0, start - _POINTED_CHARACTERS)
    stop = min(max(stop, start + 1), start + _POINTED_CHARACTERS)
    last = stop + _POINTED_CHARACTERS
    parts = (text[first:start], text[start:stop], text[stop:last])
    before, marked, behind = map(printable, parts)
    before, behind = "…" * (first > 0) + before, behind + "…" * (last < len(text))
    carets = "^" * max(1, _columns(marked))
    return f"  {before}{marked}{behind}".rstrip() + f"\n  {' ' * _columns(before)}{carets}"


def _columns(text: str) -> int:
    """Return the width of ``text`` in columns of a terminal."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


class PluginWarning(UserWarning):
    """A format or mechanism of another package that cannot be used, and is left out."""


def plugin_text(entry: Any) -> str:
    """Return the distribution and the value of an entry point in words."""
    whose = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"the entry point {entry.value}{whose}"


def warn_of_plugin(entry: Any, got: str) -> None:
    """Warn that what an entry point names is left out."""
    sentence = f"{entry.name}, {plugin_text(entry)}, is left out: {got}"
    warnings.warn(sentence, PluginWarning, stacklevel=2)


class CacheWarning(UserWarning):
    """Compiled code that is not loaded, or not kept, because others could have written it."""
