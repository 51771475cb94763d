"""Schemas of formats for the construct library, derived from the declared fields on request.

Reading and writing of frames does not use these schemas: `ecmproto.wire.formats.base` generates code from the
same declarations. Importing construct would take a tenth of a command's start time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from construct import (
    BitsInteger,
    BitStruct,
    Bytes,
    BytesInteger,
    Container,
    GreedyBytes,
    IfThenElse,
    Struct,
    Subconstruct,
    this,
)

from ecmproto.wire.formats.schema import Count, Meta, Width

if TYPE_CHECKING:

    class Adapter:
        """Typed declaration of construct's Adapter class."""

        def __init__(self, subcon: Any) -> None:
            self.subcon = subcon

        def parse(self, data: bytes, **context: Any) -> Any:
            """Parse octets and return the values."""

        def build(self, obj: Any, **context: Any) -> bytes:
            """Return the octets of the values."""
            return b""

else:
    from construct import Adapter


class Documented(Subconstruct):  # type: ignore[misc]  # construct is untyped
    """Construct with a field's `Meta` and, for a variable field, the `Count`."""

    def __init__(self, subcon: Any, meta: Meta, count: Count | None = None) -> None:
        super().__init__(subcon)
        self.meta = meta
        self.count = count


class FlatStruct(Adapter):
    """Struct that shows the members of nested BitStructs (named ``_bits…``) as direct fields."""

    def _decode(self, obj: Any, context: Any, path: str) -> Any:
        flat = Container()
        for key, value in obj.items():
            if key.startswith("_bits"):
                flat.update((k, v) for k, v in value.items() if not k.startswith("_"))
            elif not key.startswith("_"):
                flat[key] = value
        return flat

    def _encode(self, obj: Any, context: Any, path: str) -> Any:
        nested = Container()
        for member in self.subcon.subcons:
            if member.name.startswith("_bits"):
                nested[member.name] = {bit.name: obj[bit.name] for bit in member.subcon.subcon.subcons}
            else:
                nested[member.name] = obj[member.name]
        return nested


def schema_of(widths: Iterable[tuple[str, Width]]) -> FlatStruct:
    """Return the construct of a format.

    Consecutive fields that are not whole octets are grouped into BitStructs.
    """
    members: list[Any] = []
    run: list[Any] = []
    run_bits = 0
    where: dict[str, Any] = {}
    for key, width in widths:
        if width.bits is None:
            assert width.count is not None
            members.append(key / Documented(_variable(width.count, where), width.meta, width.count))
        elif width.bits % 8 or run_bits:
            group = f"_bits{len(members)}"
            run.append(key / Documented(BitsInteger(width.bits), width.meta))
            run_bits += width.bits
            where[key] = this[group][key]
            if run_bits % 8 == 0:
                members.append(group / BitStruct(*run))
                run, run_bits = [], 0
        else:
            members.append(key / Documented(_fixed(width), width.meta))
            where[key] = this[key]
    return FlatStruct(Struct(*members))


def _fixed(width: Width) -> Any:
    assert width.bits is not None
    if width.meta.kind in ("uint", "sint", "cpid"):
        return BytesInteger(width.bits // 8, signed=width.meta.kind == "sint")
    return Bytes(width.bits // 8)


def _variable(count: Count, where: Mapping[str, Any]) -> Any:
    body = Bytes(where[count.key] * count.scale - count.minus) if count.key else GreedyBytes
    if count.when is None:
        return body
    key, values = count.when
    path = where[key]
    return IfThenElse(lambda context: path(context) in values, body, Bytes(0))
