"""Which columns are asked for: names as filters know them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ecmproto.errors import SpecError
from ecmproto.filter.fields import Field, find, hint
from ecmproto.formats.registry import catalogue


def every_name() -> tuple[str, ...]:
    """Return the names of all columns that there are, in the order of `ecmproto.formats.registry`.

    Besides these, what filters know: ``eth.addr`` and its like, and ``encapsulated.NAME``.
    """
    return tuple(entry.name for entry in catalogue())


def asked(names: Iterable[str] | None) -> tuple[Field, ...]:
    """Return the fields called ``names``, each once; None: all.

    SpecError, with the nearest name, for one that does not exist or that is a layer's.
    """
    return _asked(None if names is None else tuple(names))


@functools.lru_cache(maxsize=32)
def _asked(names: tuple[str, ...] | None) -> tuple[Field, ...]:
    return tuple({name: _field(name) for name in (every_name() if names is None else names)}.values())


@functools.cache
def _field(name: str) -> Field:
    field = find(name)
    if field is None:
        raise SpecError(where="fields", needed="the name of a field", got=repr(name), hint=hint(name))
    if field.kind == "layer":
        raise SpecError(where="fields", needed="the name of a field, not a layer's", got=repr(name))
    return field
