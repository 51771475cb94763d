"""How a wire format is written down: once, as a class whose fields carry construct schemas.

A format is a class under ``@layer(...)``; each field is declared with a function of
`ecmproto.formats.schema`, which names its width, what it means and which document says so::

    @layer("cntag", title="Congestion notification tag", source="802.1Q clause 33")
    class CNTag(Layer):
        flow_id: int = uint(16, default=0, doc="…", source="…")

From that one text come the frozen typed value (the class itself), its construct schema
(``CNTag.schema``, a real ``construct.Struct`` that parses and builds), and, by a walk over the schema
(`ecmproto.formats.layout`), the field table, the fast codec, the bit diagrams, the documentation and the
Hypothesis strategies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from ecmproto.formats.layer import Layer
from ecmproto.formats.layout import fields_of
from ecmproto.formats.packing import generate
from ecmproto.formats.schema import Width, address, declared, mac, octets, schema_of, sint, uint

L = TypeVar("L", bound=type[Layer])


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(uint, sint, mac, address, octets)
)
def layer(prefix: str, *, title: str, source: str, **defaults: int) -> Callable[[L], L]:
    """Make a class of declared fields a format.

    ``defaults`` are this format's own values of inherited fields (an ECM message is Protocol 0, a BCN
    message Protocol 1).
    """

    def decorate(cls: L) -> L:
        for key, default in defaults.items():
            setattr(cls, key, _with_default(cls, key, default))
            cls.__annotations__.setdefault(key, "int")
        made: Any = dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)
        made.prefix, made.title, made.source = prefix, title, source
        made.schema = schema_of((f.name, f.metadata["width"]) for f in dataclasses.fields(made))

        made.layout = fields_of(made.schema, prefix)
        made.fixed_octets, made.parse, made.build = generate(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _with_default(cls: type[Layer], key: str, default: int) -> Any:
    inherited: Width = next(
        field.metadata["width"]
        for base in cls.__mro__
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
        if field.name == key
    )
    assert inherited.bits is not None
    return declared(inherited.bits, dataclasses.replace(inherited.meta, default=default))
