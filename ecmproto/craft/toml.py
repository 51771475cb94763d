"""Items of a specification as TOML, for people to change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ecmproto.dissect.json import FRAMES_SCHEMA


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
