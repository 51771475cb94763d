"""Values in scenarios and topology lines: parser, checks and formatter of each type."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ecmproto.control.engine.config import (
    Buffer,
    PortRate,
    buffer_text,
    parse_buffer,
    parse_port_rate,
)
from ecmproto.control.lab.model import FRAME_OCTETS
from ecmproto.control.mechanisms.api.parameters import UNITS, parse_flag
from ecmproto.errors import ParameterError, SpecError, hint_on_name, shown
from ecmproto.units import exact_octets, exact_rate, exact_time, parse_octets, parse_rate, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Type of value."""

    needed: str
    """Description of the expected text, for errors."""
    read: Callable[[str], Any]
    """Parser of a text; raises ParameterError, ValueError or KeyError for invalid text."""
    show: Callable[[Any], str]
    """Formatter that returns text for the parser `read`."""
    plain: tuple[type, ...] = ()
    """Allowed TOML types of the value, in addition to text."""


def read_value(kind: Kind, value: object, where: str, within: tuple[float, float] | None = None) -> Any:
    """Parse ``value`` from a document or a command line, and check the number against the range ``within``.

    Raises SpecError with ``where`` for an invalid value.
    """
    given = shown(value) if isinstance(value, str) else _shown_value(value)
    fits = isinstance(value, str) or (
        isinstance(value, kind.plain) and isinstance(value, bool) == (kind.plain == (bool,))
    )
    if type(value) is int and value == 0:  # 0 needs no unit
        fits = True
    if not fits:
        raise SpecError(where=where, needed=kind.needed, got=given)
    try:
        result = kind.read(value if isinstance(value, str) else _text(value))
    except ParameterError as error:
        # The kind describes a missing unit, and the parser describes any other error.
        needed = kind.needed if error.name in ("rate", "octets", "time") else error.needed
        raise SpecError(where=where, needed=needed, got=given) from None
    except (ValueError, KeyError, OverflowError):
        raise SpecError(where=where, needed=kind.needed, got=given) from None
    if within is not None and not within[0] <= result <= within[1]:
        minimum, maximum = (kind.show(each) for each in within)
        raise SpecError(where=where, needed=f"{minimum} to {maximum}", got=given)
    return result


def _shown_value(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else shown(value)


def _text(value: object) -> str:
    """Return a value of a TOML type as text."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def check_known(name: str, known: Collection[str], needed: str, where: str, hint: str = "") -> None:
    """Raise SpecError for a name that is not in ``known``, with ``hint`` or the most similar name."""
    if name not in known:
        raise SpecError(where=where, needed=needed, got=shown(name), hint=hint or hint_on_name(name, known))


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    share = text.strip().endswith("%")
    value = float(text.strip().removesuffix("%")) / (100 if share else 1)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_FRAMES = re.compile(r"([0-9]{1,6})\s*frames?")


def _octets(text: str) -> int:
    """Return a number of octets; the text may also give a number of frames of 1500 octets."""
    frames = _FRAMES.fullmatch(text.strip())
    return int(frames[1]) * FRAME_OCTETS if frames else parse_octets(text)


def _port_rate_text(rate: PortRate) -> str:
    changes = [f"{exact_rate(each.rate_bps)}@{exact_time(each.time_ns)}" for each in rate.changes]
    return ",".join([exact_rate(rate.rate_bps), *changes])


def _buffer(text: str) -> Buffer:
    result = parse_buffer(text)
    if not result.octets:
        raise ParameterError(name="buffer", needed="a buffer that is not 0", got=text)
    return result


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_whole(part) for part in text.split(","))


def choice(*options: str) -> Kind:
    """Return a value type that allows only the given words."""
    known = {word: word for word in options}
    return Kind(
        needed=f"one of {', '.join(options)}", read=lambda text: known[text.strip().lower()], show=str
    )


RATE = Kind(needed="a rate with its unit, such as 5G", read=parse_rate, show=exact_rate)
RATE_CHANGES = Kind(
    needed="a rate with its unit, such as 5G, and perhaps changes, such as 10G,1G@10ms,10G@90ms",
    read=parse_port_rate,
    show=_port_rate_text,
)
TIME = Kind(needed="a time with its unit, such as 15ms", read=parse_time, show=exact_time)
OCTETS = Kind(needed="a size with its unit, such as 33kB or 16frames", read=_octets, show=exact_octets)
BUFFER = Kind(needed="a size with its unit, such as 300kB or 100frames", read=_buffer, show=buffer_text)
COUNT = Kind(needed="a whole number", read=_whole, show=str, plain=(int,))
COUNTS = Kind(
    needed="whole numbers, such as 2,3",
    read=_counts,
    show=lambda counts: ",".join(map(str, counts)),
    plain=(int,),
)
NUMBER = Kind(needed="a number", read=_number, show=lambda value: f"{value:g}", plain=(int, float))
FLAG = Kind(needed="true or false", read=parse_flag, show=UNITS["flag"].format, plain=(bool,))
TEXT = Kind(needed="a text in quotes", read=str, show=str)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(text)
    return text


WORD = Kind(needed="a name: a letter, then letters, digits, - or _", read=_name, show=str)


# Keys of tables and options ---------------------------------------------------------------------------------


LONGEST_NS = 10**15
"""Maximum time in ns: eleven days."""
TIMES_NS = (0, LONGEST_NS)
RATES_BPS = (1_000, 10**13)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Key of a table, or option of a topology line, with the type of the value and its meaning.

    ``default`` applies if the key is missing. The default ``None`` means that the value follows from other
    values.
    """

    kind: Kind
    doc: str
    default: Any = None
    within: tuple[float, float] | None = None
    required: bool = False
    owner: type | None = None
    attribute: str = ""
    """Field of the model class ``owner`` that stores the value unchanged."""
    needs: tuple[str, Any] | None = None
    """Another key of the table, with the only value for which this key has an effect."""


_KINDS = {"str": TEXT, "int": COUNT, "float": NUMBER, "bool": FLAG, "Buffer | None": BUFFER}


def key_of(
    owner: type, attribute: str, doc: str, within: tuple[float, float] | None = None, *,
    needs: tuple[str, Any] | None = None, kind: Kind | None = None,
) -> Key:  # fmt: skip
    """Return the key of a model field, with the field's default; without a default, the key is required.

    The kind of the value follows from the unit at the end of the field's name, or else from the field's type.
    """
    (known,) = (each for each in dataclasses.fields(owner) if each.name == attribute)
    required = known.default is dataclasses.MISSING
    if attribute.endswith("_ns"):
        kind, within = TIME, within or TIMES_NS
    elif attribute.endswith("_octets"):
        kind = OCTETS
    return Key(
        kind=kind or _KINDS[str(known.type)], doc=doc, within=within, required=required,
        default=None if required else known.default, owner=owner, attribute=attribute, needs=needs,
    )  # fmt: skip


def fields_of(
    owner: type, keys: Mapping[str, Key], values: Mapping[str, Any], given: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the fields of ``owner`` from the values of a table; only fields in ``given``, if given."""
    return {
        key.attribute: values[name]
        for name, key in keys.items()
        if key.owner is owner and (given is None or name in given)
    }
