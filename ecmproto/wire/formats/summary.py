"""Part of a frame's summary line for one format: a template, and the clauses in the template.

A template is text with values in braces. `ecmproto.frames.dissect` replaces the braces by the values:

``{id}``               field of the format's layer; ``{ip.src}``: field of the nearest layer of another format
``{sender}``           source address of the frame; ``{receiver}``: destination address
``{cpid[48:64]}``      range of bits in a field, counted from the first bit
``{#data}``            number of octets in a field
``{length-8}``         difference; ``{64*q_off}``: multiple
``{proto:ip}``         value in a style of `dissect`; ``{timestamp,unit:ticks}``: two values in one style
``{q_off:queue}``      clause of the summary or shared clause, in which ``@`` is the value
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, TypeAlias

from ecmproto.errors import did_you_mean
from ecmproto.values import dataclass
from ecmproto.wire.formats.schema import Field


@dataclass(frozen=True, slots=True)
class First:
    """List of templates. The first template is used whose layers and addresses are in the frame.

    A tag with fields in the chosen template is not shown again.
    """

    templates: Sequence[str]


@dataclass(frozen=True, slots=True)
class Case:
    """Condition on a value.

    The clause is ``then`` if the value is between ``low`` and ``high``, and ``otherwise`` if the value is
    outside this range or missing. Addresses are compared as numbers.
    """

    value: str
    low: int
    high: int
    then: Clause
    otherwise: Clause = ""


Clause: TypeAlias = "str | First | Case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Part of a frame's summary line for one format. Every attribute is optional."""

    label: str = ""
    """Short name for the type of a frame with this format."""
    detail: str = ""
    """Template for the summary of a frame with this format."""
    tag: str = ""
    """Template that the format adds to the summary of any frame."""
    detail_first: bool = False
    """Whether ``detail`` precedes the frame's tags, as in messages of congestion management."""
    gives_way: bool = False
    """Whether another format's detail replaces ``detail``, and an inner wrapper's tag replaces ``tag``."""
    name: str = ""
    """Type of a frame in which no format has a label."""
    sender: str = ""
    receiver: str = ""
    addressee: str = ""
    shown_to: str = ""
    """Names of the fields with addresses.

    ``sender`` and ``receiver`` are the fields with the frame's addresses. ``addressee`` is the field with a
    message's recipient. ``shown_to`` is the field with the inner frame's destination.
    """
    summarize: Callable[[Sequence[Any]], list[str]] | None = None
    """Function that replaces the templates: returns the tags and then the detail of the given layers."""
    colour: str = ""
    """Style of the format's name. Empty text means the style of the format's role."""
    clauses: Mapping[str, Clause] = dataclasses.field(default_factory=dict)
    """Clauses that only this summary defines."""
    styles: Mapping[str, Callable[..., str]] = dataclasses.field(default_factory=dict)
    """Styles in the templates that `ecmproto.frames.dissect` does not define."""


STYLES = frozenset({
    "decimal", "signed", "hex", "mac", "ipv4", "ipv6", "address", "from", "capacity", "time", "ticks",
    "cm_tag", "e2cm_type", "ip", "flags", "packet", "ethertype", "protocol",
})  # fmt: skip
"""Names of the styles that `ecmproto.frames.dissect` defines."""
CLAUSES = frozenset({
    "ports", "cpid", "source", "other", "stranger", "queue", "queues", "saturated", "quanta", "dei", "octets",
    "rate", "addresses",
})  # fmt: skip
"""Names of the clauses that `ecmproto.frames.dissect` defines."""


def check_summary(name: str, summary: Summary) -> None:
    """Raise TypeError for an unknown style or clause in a template of a format's summary."""
    known = STYLES | CLAUSES | summary.styles.keys() | summary.clauses.keys()
    for template in _templates((summary.detail, summary.tag, summary.name, *summary.clauses.values())):
        try:
            styles = {style for _, _, style, _ in Formatter().parse(template) if style}
        except ValueError as error:
            raise TypeError(f"{name}: summary: expected a template, got {template!r} ({error})") from None
        if unknown := sorted(styles - known):
            hint = f" ({near})" if (near := did_you_mean(unknown[0], known)) else ""
            needed = "a known style or clause"
            raise TypeError(f"{name}: summary: expected {needed}, got {unknown[0]!r} in {template!r}{hint}")


def _templates(clauses: Sequence[Clause]) -> Iterator[str]:
    for clause in clauses:
        if isinstance(clause, str):
            yield clause
        elif isinstance(clause, First):
            yield from clause.templates
        else:
            yield from _templates((clause.then, clause.otherwise))


_SUMMARY_FIELDS = 6
"""Maximum number of fields in a default summary."""
_UNSAID = ("version", "reserved", "length")


def summary_of_fields(
    prefix: str, role: str, fields: Sequence[Field], *, next_key: str, shows: bool
) -> Summary:
    """Return the default summary of a format.

    The summary contains the names and values of the first fields. The role determines the place in the
    summary line.
    """
    keys = [
        field
        for field in fields
        if field.key != next_key and not field.key.startswith(_UNSAID) and not (shows and field.count)
    ]
    counting = {field.count.key for field in fields if field.count is not None}
    texts = [_field_template(field) for field in keys if field.key not in counting]
    detail = " ".join(texts[:_SUMMARY_FIELDS])
    if role == "header":
        return Summary()
    if role == "tag":
        return Summary(tag=f"{prefix} {detail}".rstrip())
    return Summary(label=prefix.upper(), detail=detail or prefix, detail_first=role == "message")


def _field_template(field: Field) -> str:
    if field.kind == "octets":
        return f"{field.key} {{#{field.key}:octets}}"
    if field.kind == field.key == "cpid":
        return "{:cpid}"
    short = field.kind == "uint" and field.meta.base == "hex" and (field.bits or 0) <= 16
    return f"{field.key} {{{field.key}{':hex' if short else ''}}}"
