"""TOML, read within bounds, and items of a specification written as TOML, for people to change."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from ecmproto.dissect.json import FRAMES_SCHEMA
from ecmproto.errors import SpecError, counted

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
    """Return a TOML document; SpecError for what is none, or too much for what reads it."""
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


def toml_of(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text of a specification with these items, piece by piece.

    Values are text, integers, booleans and mappings of these.
    """
    yield f"schema = {_value(FRAMES_SCHEMA)}\n"
    for item in items:
        yield "\n[[frames]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in item.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)} = {_value(each)}' for key, each in value.items())}}}"
    # basic strings, integers and booleans are written in TOML as in JSON, but for the octet 0x7F
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
