"""Bounded readers of untrusted JSON and TOML. JSON is read in pieces, TOML as a whole.

Duplicate keys, NaN, excessive nesting and invalid text raise SpecError with the position.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from ecmproto.errors import SpecError, counted, did_you_mean, shown

_CHUNK = 1 << 20
MAX_VALUE_CHARACTERS = 8 << 20
"""Maximum length of one value in a document, such as a frame. Parsing may use twenty times this memory."""

_SPACE = " \t\r\n"
_NUMBER = re.compile(r"[0-9.eE+-]*")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _RefusedError("each key once", f"{twice!r} twice")
    return result


def _constant(text: str) -> None:
    raise _RefusedError("a number that JSON allows", text)


class _RefusedError(ValueError):
    def __init__(self, needed: str, got: str) -> None:
        super().__init__(needed, got)
        self.needed, self.got = needed, got


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


class JsonStream:
    """Reader of consecutive JSON values in a text stream. Raises SpecError for invalid JSON.

    ``name`` is the name of the stream in errors.
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
        """Number of characters consumed."""
        return self._passed + self._at

    def peek(self) -> str:
        """Return the next character that is not white space, or "" at the end of the stream."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def expect(self, characters: str) -> str:
        """Consume the next character. Raises SpecError unless it is one of ``characters``."""
        character = self.peek()
        if not character or character not in characters:
            names = " or ".join(repr(each) for each in characters)
            raise self.error(names, repr(character) if character else "the end of the text")
        self._at += 1
        return character

    def value(self) -> Any:
        """Consume the next value and return it."""
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
                raise self.error("less than a thousand levels of nesting", "deeper nesting") from None
            except ValueError:  # more digits than Python reads
                raise self.error("numbers of at most 4,300 digits", "a longer one") from None

    def _may_go_on(self, end: int) -> bool:
        """Return whether the buffered text may end in the middle of a number, such as ``1`` or ``3.5e``."""
        rest = _NUMBER.match(self._text, end)
        return rest is not None and rest.end() == len(self._text)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that starts here. The caller consumes each value."""
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
        """Return whether the compiled ``pattern`` matches the following text."""
        self.peek()
        return pattern.match(self._text, self._at) is not None

    def error(self, needed: str, got: str) -> SpecError:
        """Return a SpecError for the current position."""
        line = self._lines + self._text.count("\n", 0, self._at)
        return SpecError(where=f"{self._name}, line {line}", needed=needed, got=got)

    def _more(self) -> bool:
        """Read more text and discard the consumed text. Return False at the end of the stream."""
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
"""Maximum size of a TOML document in octets. Parsing uses some twenty times this memory."""
MAX_KEY_PARTS = 64
"""Maximum number of dotted parts in a key. The cost of each part grows with their number."""

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')"""
_TOKEN = "|".join(
    (
        r'"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}+', r"'''(?:[^']++|'(?!''))*+'{0,5}+", r"#[^\n]*+",
        rf"(?P<key>{_PART}(?:[ \t]*+\.[ \t]*+{_PART})++)",
        r'"(?:[^"\\\n]++|\\.)*+"?', r"'[^'\n]*+'?", "[A-Za-z0-9_-]++",
    )
)  # fmt: skip
"""Pattern of tokens that may contain dots: strings and comments, which are skipped, keys, and numbers.

A token without its end extends to the end of the line or document. No octet is tried more than a few times.
"""


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


def read_text(where: str, value: object) -> str:
    """Return ``value`` if it is a text; raise SpecError for any other value."""
    if not isinstance(value, str):
        raise SpecError(where=where, needed="a text in quotes", got=shown(value))
    return value


def check_names(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise SpecError if a table contains an unknown name."""
    names = sorted(known)
    for name in table:
        if name not in names:
            hint = did_you_mean(name, names)
            raise SpecError(where=where, needed=f"one of {', '.join(names)}", got=shown(name), hint=hint)


def _check_keys(text: str, name: str) -> None:
    """Raise SpecError for a key with too many parts."""
    if not any(line.count(".") >= MAX_KEY_PARTS for line in text.splitlines()):
        return
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        parts = (token["key"] or "").count(".") + 1
        if parts > MAX_KEY_PARTS:
            line = text.count("\n", 0, token.start()) + 1
            needed = f"keys of at most {MAX_KEY_PARTS} parts"
            raise SpecError(where=f"{name}: line {line}", needed=needed, got=counted(parts, "part"))
