"""Binding of layers to EtherTypes in Scapy's tables, conversion of packets, and trees of layers.

Importing this module does not bind the layers. Scapy stores bindings in class attributes. `bind` inserts the
bindings of this package first, so that these bindings take precedence over the bindings of contrib modules.
`unbind` removes exactly the entries that `bind` inserted. Formats that share an EtherType declare a
discriminator word or an opcode.

>>> print(payload_text(octets))             # all layers that Scapy dissects, including IP, TCP, UDP, DNS, …
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scapy.config import conf
from scapy.fields import ConditionalField
from scapy.layers.l2 import Dot1AD, Dot1AH, Dot1Q, Ether, l2_register_l3
from scapy.packet import NoPayload, Packet, Raw

from ecmproto.wire import codec
from ecmproto.wire.codec import Frame, decode, encode
from ecmproto.wire.formats import csig, erspan, ethernet, geneve, gre, ip, mpls, tzsp, vxlan
from ecmproto.wire.formats import infiniband as roce
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ethertypes import DEFAULT, OFF, EtherTypes
from ecmproto.wire.formats.registry import FORMATS, announcement, dispatch
from ecmproto.wire.layers import infiniband
from ecmproto.wire.layers.cn import CNM, CNTag
from ecmproto.wire.layers.derived import layer_of, lower_of
from ecmproto.wire.layers.lldp import LLDPTLV, PARTS
from ecmproto.wire.layers.mac_control import PFC, MACControl, Pause
from ecmproto.wire.layers.parts import Sampling, Tag, sampled_source
from ecmproto.wire.layers.proposals import (
    BCN,
    E2CM,
    ECM,
    CMTag,
    DBPRateReport,
    FECNReturn,
    RDTag,
    RRTTag,
    UnknownMessage,
    UnknownTag,
)

LAYERS: dict[type[codec.Layer], type[Packet]] = {
    codec.CNTag: CNTag,
    codec.CNM: CNM,
    codec.ECM: ECM,
    codec.CMTag: CMTag,
    codec.BCN: BCN,
    codec.RRTTag: RRTTag,
    codec.E2CM: E2CM,
    codec.RDTag: RDTag,
    codec.FECNReturn: FECNReturn,
    codec.DBPRateReport: DBPRateReport,
    codec.UnknownMessage: UnknownMessage,
    codec.UnknownTag: UnknownTag,
    codec.Pause: Pause,
    codec.PFC: PFC,
    codec.MACControl: MACControl,
    **PARTS,
}
"""Scapy layers of this package, by format."""

_SCAPYS_OWN = {each.__name__ for each in (ethernet, ip, roce, gre, erspan, vxlan, geneve, mpls, tzsp)}
"""Modules of formats for which Scapy has layers."""
_WRAPPERS = (
    "scapy.layers.vxlan",
    *(f"scapy.contrib.{each}" for each in ("erspan", "geneve", "mpls", "tzsp")),
)
"""Modules of Scapy with wrappers other than GRE. Importing a module binds the module's layers."""
_DERIVED = [cls for cls in FORMATS if cls not in LAYERS and cls.__module__ not in _SCAPYS_OWN]
LAYERS |= {cls: layer_of(cls) for cls in _DERIVED}
CSIG = LAYERS[csig.CSIG]

VLAN_LAYERS: dict[str, type[Packet]] = {"c_tag": Dot1Q, "s_tag": Dot1AD, "i_tag": Dot1AH}
"""Scapy's own layers, by attribute of `EtherTypes`."""

_FORMATS = dispatch()


def _payload_class(role: str, octets: bytes | None, otherwise: type[Packet]) -> type[Packet]:
    """Return the layer that dissects ``octets`` after the EtherType ``role``."""
    if not octets:
        return otherwise
    ethertype = getattr(_FORMATS.ethertypes, role)
    announced = _FORMATS.announced(ethertype, octets, 0, len(octets))[0]
    if announced.otherwise is not None and announced.cannot_be(octets, 0, len(octets), len(octets)):
        announced = announced.otherwise
    cls = LAYERS[announced]
    return cls.dispatch_hook(octets) if hasattr(cls, "dispatch_hook") else conf.raw_layer


def _door(role: str, otherwise: type[Packet]) -> type[Packet]:
    """Return a layer for the EtherType ``role`` that other layers dissect, depending on the first octets."""

    def dispatch_hook(cls: Any, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        return _payload_class(role, _pkt, otherwise)

    return type(f"{role}_door", (Packet,), {"dispatch_hook": classmethod(dispatch_hook)})


DOORS: dict[str, type[Packet]] = {
    "cn_tag": CNTag,
    "cnm": CNM,
    "message": _door("message", UnknownMessage),
    "tag": _door("tag", UnknownTag),
    "mac_control": _door("mac_control", MACControl),
    "lldp": _door("lldp", LLDPTLV),
}
"""Layer that dissects each EtherType, by attribute of `EtherTypes`."""


_LOWERS: tuple[type[Packet], ...] = (Ether, Dot1Q, Dot1AD)

_OVERLOADS = "_overload_fields"
_Guess = tuple[dict[str, Any], type[Packet]]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Bound:
    """Entries that `bind` added to Scapy's tables, and the replaced entries."""

    ethertypes: EtherTypes
    guesses: list[tuple[type[Packet], _Guess]] = dataclasses.field(default_factory=list)
    overloads: list[tuple[type[Packet], type[Packet], dict[str, Any], dict[str, Any] | None]] = (
        dataclasses.field(default_factory=list)
    )
    resolvers: list[tuple[type[Packet], type[Packet]]] = dataclasses.field(default_factory=list)


_bound: _Bound | None = None


def bind(ethertypes: EtherTypes = DEFAULT) -> None:
    """Make Scapy dissect and build the layers of this package with the EtherTypes of ``ethertypes``.

    A second call with the same map has no effect. A call with another map first removes the previous
    bindings. Existing packets keep their types.
    """
    global _bound
    if _bound is not None and _bound.ethertypes == ethertypes:
        return
    unbind()
    for name in _WRAPPERS:
        importlib.import_module(name)
    _bound = _Bound(ethertypes=ethertypes)
    _bind_dissection(_bound)
    _bind_building(_bound)
    _bind_resolvers(_bound)


def unbind() -> None:
    """Restore Scapy's tables to the state before `bind`. Without bindings, the function has no effect."""
    global _bound
    if _bound is None:
        return
    for lower, guess in _bound.guesses:
        lower.payload_guess = [entry for entry in lower.payload_guess if entry is not guess]
    for upper, lower, ours, before in reversed(_bound.overloads):
        table = dict(_overloads_of(upper))
        if table.get(lower) is ours:  # otherwise, a later binding of the layer replaced the entry
            del table[lower]
            setattr(upper, _OVERLOADS, table if before is None else {**table, lower: before})
    for pair in _bound.resolvers:
        conf.neighbor.resolvers.pop(pair, None)
    _bound = None


def bound_ethertypes() -> EtherTypes | None:
    """Return the EtherType map of the current bindings, or ``None`` without bindings."""
    return None if _bound is None else _bound.ethertypes


@contextmanager
def bound(ethertypes: EtherTypes = DEFAULT) -> Iterator[None]:
    """Bind the layers during a ``with`` block, then restore the previous bindings."""
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
    doors = [(value, cls) for value, cls in doors if value != OFF]
    derived = [
        (announcement(cls, bound.ethertypes), cls) for cls in _DERIVED if cls.announced_by not in DOORS
    ]
    doors += [(value, LAYERS[cls]) for value, cls in derived if value is not None]
    for lower in _LOWERS:
        new = [(value, cls) for value, cls in vlans if _dissected_as(lower, value) is not cls]
        guesses: list[_Guess] = [({"type": value}, cls) for value, cls in doors + new]
        lower.payload_guess = [*guesses, *lower.payload_guess]
        bound.guesses += [(lower, guess) for guess in guesses]
    following = [(lower, values, LAYERS[cls]) for cls in _DERIVED for lower, values in lower_of(cls)]
    for lower, values, layer in (*following, *infiniband.dissected()):
        guess = (values, layer)
        lower.payload_guess = [guess, *lower.payload_guess]
        bound.guesses.append((lower, guess))


def _dissected_as(lower: type[Packet], ethertype: int) -> type[Packet] | None:
    """Return Scapy's layer for an EtherType. Every layer also uses the table of Ether."""
    tables = [table for cls in (lower, Ether) for table in cls.payload_guess]
    return next((cls for values, cls in tables if values == {"type": ethertype}), None)


def _bind_building(bound: _Bound) -> None:
    for cls, layer in LAYERS.items():
        ethertype = announcement(cls, bound.ethertypes)
        if ethertype is not None:
            _overload(bound, layer, ethertype, cls.crafting.destination)
        for lower, values in lower_of(cls):
            _put_overload(bound, layer, lower, values)
    for role, layer in VLAN_LAYERS.items():
        ethertype = getattr(bound.ethertypes, role)
        if _overloads_of(layer)[Ether] != {"type": ethertype}:
            _overload(bound, layer, ethertype, b"")


def _overload(bound: _Bound, upper: type[Packet], ethertype: int, destination: bytes) -> None:
    for lower in _LOWERS:
        ours: dict[str, Any] = {"type": ethertype}
        if lower is Ether and destination:
            ours["dst"] = destination.hex(":")
        _put_overload(bound, upper, lower, ours)


def _put_overload(bound: _Bound, upper: type[Packet], lower: type[Packet], ours: dict[str, Any]) -> None:
    table = _overloads_of(upper)
    bound.overloads.append((upper, lower, ours, table.get(lower)))
    setattr(upper, _OVERLOADS, {**table, lower: ours})


def _overloads_of(upper: type[Packet]) -> dict[type[Packet], dict[str, Any]]:
    # Scapy's metaclass creates this attribute from ``overload_fields``, unknown to type checkers
    table: dict[type[Packet], dict[str, Any]] = getattr(upper, _OVERLOADS)
    return table


def _bind_resolvers(bound: _Bound) -> None:
    """Register resolvers for the destination address of Ether.

    The resolvers read the destination from the layers below a tag or from the sampled frame in a message.
    """
    for layer in LAYERS.values():
        resolver = l2_register_l3 if issubclass(layer, Tag) else sampled_source
        if issubclass(layer, Tag | Sampling):
            conf.neighbor.register_l3(Ether, layer, resolver)
            bound.resolvers.append((Ether, layer))


def to_scapy(frame: Frame | bytes, *, ethertypes: EtherTypes | None = None) -> Packet:
    """Return a frame as a Scapy packet with the layers of this package, whether or not the layers are bound.

    ``ethertypes`` defaults to the frame's map. For octets, the default is the bound map or, without bindings,
    the default map. Octets shorter than an Ethernet header are Raw. Raises EncodeError for a frame that
    cannot be encoded.
    """
    if isinstance(frame, Frame):
        octets, own = encode(frame), frame.ethertypes
    else:
        octets, own = bytes(frame), bound_ethertypes() or DEFAULT
    if len(octets) < Ethernet.fixed_octets:
        return Raw(octets)
    with bound(ethertypes or own):
        return Ether(octets)


def from_scapy(packet: Packet, *, ethertypes: EtherTypes | None = None) -> Frame:
    """Return a Scapy packet as a decoded frame.

    ``ethertypes`` defaults to the bound map or, without bindings, to the default map. Raises DecodeError if
    the packet's octets are malformed.
    """
    return decode(bytes(packet), ethertypes=ethertypes or bound_ethertypes() or DEFAULT)


DEEP_MODULES = (
    "scapy.layers.inet", "scapy.layers.inet6", "scapy.layers.dhcp", "scapy.layers.dhcp6",
    "scapy.layers.dns", "scapy.layers.ntp", "scapy.layers.sctp", "scapy.layers.vxlan",
)  # fmt: skip
"""Scapy modules whose layers a tree shows. The modules are loaded for the first tree."""


MAX_DEPTH = 8
"""Maximum depth of nested packets in a tree, because octets can nest hundreds of packets."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Layer of a tree: the name, the fields as text, and the nested packets.

    ``branches`` contains packets in fields (such as DNS records) and the sampled frame of a message. The
    payload of the layer is the next item of the tree instead.
    """

    name: str
    fields: tuple[tuple[str, str], ...]
    branches: tuple[Branch, ...] = ()


def payload_tree(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> tuple[Branch, ...]:
    """Return the layers of a frame as dissected by Scapy, outermost first. Raises no error for any octets."""
    for name in DEEP_MODULES:
        importlib.import_module(name)
    with bound(ethertypes):
        return tuple(_branches(to_scapy(octets, ethertypes=ethertypes)))


def payload_text(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> str:
    """Return `payload_tree` as indented text lines."""
    return "\n".join(_lines(payload_tree(octets, ethertypes=ethertypes), indent=""))


def _lines(branches: tuple[Branch, ...], indent: str) -> Iterator[str]:
    for branch in branches:
        yield f"{indent}{branch.name}"
        for name, value in branch.fields:
            yield f"{indent}    {name} = {value}"
        yield from _lines(branch.branches, indent + "    ")


def _branches(packet: Packet, depth: int = 0) -> Iterator[Branch]:
    layer = packet
    while not isinstance(layer, NoPayload):
        yield _branch(layer, depth)
        layer = layer.payload


def _branch(layer: Packet, depth: int) -> Branch:
    fields: list[tuple[str, str]] = []
    inner: list[Packet] = []
    for field in layer.fields_desc:
        if isinstance(field, ConditionalField) and not field._evalcond(layer):
            continue
        value = layer.getfieldval(field.name)
        members = value if isinstance(value, list) else [value]
        packets = [member for member in members if isinstance(member, Packet)]
        if packets:
            inner += packets
        else:
            fields.append((field.name, _text(layer, field, value)))
    if hasattr(type(layer), "encapsulated"):
        sampled = layer.encapsulated()
        inner += [] if sampled is None else [sampled]
    shown = inner if depth < MAX_DEPTH else []
    branches = tuple(branch for packet in shown for branch in _branches(packet, depth + 1))
    return Branch(name=str(layer.name), fields=tuple(fields), branches=branches)


def _text(layer: Packet, field: Any, value: Any) -> str:
    try:
        return str(field.i2repr(layer, value))
    except Exception:
        # some dissectors of Scapy cannot show the values of malformed octets
        return repr(value)
