"""Putting the layers into Scapy's tables and taking them out again; nothing is bound by importing.

Scapy keeps its bindings in class attributes.  `bind` puts ours before the others, so that they win over
what a contrib module has bound to the same EtherType; `unbind` takes out exactly what `bind` put in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scapy.config import conf
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether, l2_register_l3
from scapy.packet import Packet

from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.lldp import DESTINATION as LLDP_DESTINATION
from ecmproto.formats.mac_control import DESTINATION as MAC_CONTROL_DESTINATION
from ecmproto.layers.dispatch import DOORS, LAYERS, VLAN_LAYERS
from ecmproto.layers.sample import Sampling, sampled_source
from ecmproto.layers.tag import Tag

_LOWERS: tuple[type[Packet], ...] = (Ether, Dot1Q, Dot1AD)
_DESTINATIONS = {"mac_control": MAC_CONTROL_DESTINATION.hex(":"), "lldp": LLDP_DESTINATION.hex(":")}

_OVERLOADS = "_overload_fields"
_Guess = tuple[dict[str, Any], type[Packet]]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Bound:
    """What `bind` has put into Scapy's tables, and what it has replaced there."""

    ethertypes: EtherTypes
    guesses: list[tuple[type[Packet], _Guess]] = dataclasses.field(default_factory=list)
    overloads: list[tuple[type[Packet], type[Packet], dict[str, Any], dict[str, Any] | None]] = (
        dataclasses.field(default_factory=list)
    )
    resolvers: list[tuple[type[Packet], type[Packet]]] = dataclasses.field(default_factory=list)


_bound: _Bound | None = None


def bind(ethertypes: EtherTypes = DEFAULT) -> None:
    """Make Scapy dissect and build these layers under ``ethertypes``.

    Binding again does nothing; binding with another map first unbinds.  Packets built before keep the
    types they have.
    """
    global _bound
    if _bound is not None and _bound.ethertypes == ethertypes:
        return
    unbind()
    _bound = _Bound(ethertypes=ethertypes)
    _bind_dissection(_bound)
    _bind_building(_bound)
    _bind_resolvers(_bound)


def unbind() -> None:
    """Leave Scapy's tables as they were before `bind`; does nothing when nothing is bound."""
    global _bound
    if _bound is None:
        return
    for lower, guess in _bound.guesses:
        lower.payload_guess = [entry for entry in lower.payload_guess if entry is not guess]
    for upper, lower, ours, before in reversed(_bound.overloads):
        _restore_overload(upper, lower, ours, before)
    for pair in _bound.resolvers:
        conf.neighbor.resolvers.pop(pair, None)
    _bound = None


def bound_ethertypes() -> EtherTypes | None:
    """Return the map that is bound, None when none is."""
    return None if _bound is None else _bound.ethertypes


@contextmanager
def bound(ethertypes: EtherTypes = DEFAULT) -> Iterator[None]:
    """Bind for the length of a ``with`` block, then put back what was bound before."""
    before = bound_ethertypes()
    bind(ethertypes)
    try:
        yield
    finally:
        if before is None:
            unbind()
        else:
            bind(before)


def _bind_dissection(bound: _Bound) -> None:
    vlans = [(getattr(bound.ethertypes, role), cls) for role, cls in VLAN_LAYERS.items()]
    vlans.append((bound.ethertypes.old_s_tag, Dot1Q))
    doors = [(getattr(bound.ethertypes, role), cls) for role, cls in DOORS.items()]
    for lower in _LOWERS:
        new = [(value, cls) for value, cls in vlans if _dissected_as(lower, value) is not cls]
        guesses: list[_Guess] = [({"type": value}, cls) for value, cls in doors + new]
        lower.payload_guess = [*guesses, *lower.payload_guess]
        bound.guesses += [(lower, guess) for guess in guesses]


def _dissected_as(lower: type[Packet], ethertype: int) -> type[Packet] | None:
    """Return the layer that Scapy finds behind an EtherType, which every layer looks up in Ether's too."""
    tables = [table for cls in (lower, Ether) for table in cls.payload_guess]
    return next((cls for values, cls in tables if values == {"type": ethertype}), None)


def _bind_building(bound: _Bound) -> None:
    for cls, layer in LAYERS.items():
        _overload(bound, layer, str(cls.announced_by) or "lldp")
    for role, layer in VLAN_LAYERS.items():
        if _overloads_of(layer)[Ether] != {"type": getattr(bound.ethertypes, role)}:
            _overload(bound, layer, role)


def _overload(bound: _Bound, upper: type[Packet], role: str) -> None:
    for lower in _LOWERS:
        ours = {"type": getattr(bound.ethertypes, role)}
        if lower is Ether and role in _DESTINATIONS:
            ours["dst"] = _DESTINATIONS[role]
        table = _overloads_of(upper)
        bound.overloads.append((upper, lower, ours, table.get(lower)))
        _set_overloads(upper, {**table, lower: ours})


def _restore_overload(
    upper: type[Packet], lower: type[Packet], ours: dict[str, Any], before: dict[str, Any] | None
) -> None:
    table = dict(_overloads_of(upper))
    if table.get(lower) is not ours:
        return  # someone has bound the layer anew since
    if before is None:
        del table[lower]
    else:
        table[lower] = before
    _set_overloads(upper, table)


_Overloads = dict[type[Packet], dict[str, Any]]


def _overloads_of(upper: type[Packet]) -> _Overloads:
    # Scapy's metaclass makes this attribute out of ``overload_fields``, unseen by type checkers
    table: _Overloads = getattr(upper, _OVERLOADS)
    return table


def _set_overloads(upper: type[Packet], table: _Overloads) -> None:
    setattr(upper, _OVERLOADS, table)


def _bind_resolvers(bound: _Bound) -> None:
    """Let Ether find its destination behind a tag, and in the frame that a message shows."""
    for layer in LAYERS.values():
        resolver = l2_register_l3 if issubclass(layer, Tag) else sampled_source
        if issubclass(layer, Tag | Sampling):
            conf.neighbor.register_l3(Ether, layer, resolver)
            bound.resolvers.append((Ether, layer))
