"""The edge of a QCN domain: CND defence modes (wire-formats 9), and CNMs at the backbone edge (3.1).

A port has a record of counters, :class:`QCNEdge`. While the neighbour does not change, the port also has a
:class:`DefenceRules` with the actions per priority. A caller with batches of frames reads the tables of the
rules. Such a caller calls `receive` and `transmit` only for frames that the rules change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.qcn.messages import TAG, CNMReceiver, ReceivedCNM, read_cnm
from ecmproto.control.mechanisms.qcn.parameters import (
    AUTOMATIC,
    AUTOMATIC_ALTERNATE,
    PRIORITIES,
    DefenceMode,
    QCNEdgeParameters,
)
from ecmproto.errors import DecodeError, ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.units import NS_PER_S
from ecmproto.wire.codec import (
    VLAN,
    CongestionNotificationTLV,
    Ethernet,
    EtherTypes,
    Frame,
    STag,
    decode,
    encode,
)
from ecmproto.wire.codec.frame import MIN_OCTETS
from ecmproto.wire.codec.pbb import convert_cnm
from ecmproto.wire.codec.tags import TYPE_OCTETS, tags_in, without_tags
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.lldp import DESTINATION, TLV


def strip_cn_tag(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame without CN-TAG, padded to 60 octets; a shorter frame is not padded."""
    stripped, count = without_tags(octets, TAG, ethertypes)
    if not count:
        return octets
    return stripped if len(octets) < MIN_OCTETS else stripped.ljust(MIN_OCTETS, b"\0")


def with_priority(octets: bytes, priority: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with ``priority`` in the outermost VLAN tag; an untagged frame is unchanged."""
    for tag in tags_in(octets, ethertypes)[0]:
        if isinstance(tag.layer, VLAN | STag):
            row = tag.layer.replace(priority=priority).build()[:-TYPE_OCTETS]
            return octets[: tag.at + TYPE_OCTETS] + row + octets[tag.end :]
    return octets


def received_priority(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the priority in the outermost VLAN tag, or 0 for an untagged frame."""
    for tag in tags_in(octets, ethertypes)[0]:
        if isinstance(tag.layer, VLAN | STag):
            return tag.layer.priority
    return 0


_TYPE_AT, _ADDRESS_OCTETS = 12, 6
UNCHANGED = tuple(range(PRIORITIES))
"""Priority regeneration table that changes no priority (802.1Q 6.9.4)."""

_GROUP_BIT = 0x01


class QCNEdge(CNMReceiver):
    """Record of the counters of a port (``kernels.record``)."""

    remapped_frames: int
    """Number of frames that were received in a CNPV and got the alternate priority."""
    kept_out_frames: int
    """Number of frames whose priority was kept because the regeneration table maps it to a CNPV."""
    cn_tags_stripped: int
    cnms_converted: int
    cnms_inconvertible: int
    """Number of CNMs discarded because the Encapsulated MSDU ends within the customer's tags."""
    cnms_misdirected: int
    """Number of CNMs discarded because the customer's source is a group address or the bridge itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenceRules:
    """The rules of congestion notification domain defence at a port, by priority from 0 to 7.

    ``modes`` is the defence mode, which is disabled for a priority that is not a CNPV. ``received`` is the
    new priority of a received frame. ``keeps_out`` is whether the regeneration table maps the priority to a
    CNPV, which the rules prevent. ``strips`` is whether transmitted frames lose their CN-TAG.
    """

    modes: tuple[DefenceMode, ...]
    received: tuple[int, ...]
    keeps_out: tuple[bool, ...]
    strips: tuple[bool, ...]


def defence_modes(
    parameters: QCNEdgeParameters, neighbour: CongestionNotificationTLV | None
) -> tuple[DefenceMode, ...]:
    """Return the mode of each priority; ``neighbour`` is the last advertisement, or ``None``."""
    cnpv = 0 if neighbour is None else neighbour.cnpv
    ready = 0 if neighbour is None else neighbour.ready
    return tuple(
        DefenceMode.DISABLED
        if priority not in parameters.cnpv
        else _automatic(cnpv >> priority & 1, ready >> priority & 1)
        if parameters.mode == AUTOMATIC
        else DefenceMode(parameters.mode)
        for priority in range(PRIORITIES)
    )


def _automatic(neighbour_cnpv: int, neighbour_ready: int) -> DefenceMode:
    if not neighbour_cnpv:
        return DefenceMode.EDGE
    return DefenceMode.INTERIOR_READY if neighbour_ready else DefenceMode.INTERIOR


def advertisement(parameters: QCNEdgeParameters, modes: Sequence[DefenceMode]) -> CongestionNotificationTLV:
    """Return the TLV that advertises the CNPVs; a CNPV is Ready unless the port remaps it (802.1Q 33.5)."""
    enabled = [p for p in sorted(parameters.cnpv) if modes[p] is not DefenceMode.DISABLED]
    ready = [p for p in enabled if modes[p] is not DefenceMode.EDGE]
    return CongestionNotificationTLV(cnpv=sum(1 << p for p in enabled), ready=sum(1 << p for p in ready))


def alternate_priority(parameters: QCNEdgeParameters, priority: int) -> int:
    """Return the alternate of a CNPV: the next lower priority that is not a CNPV, or the next higher."""
    if parameters.alternate_priority != AUTOMATIC_ALTERNATE:
        return parameters.alternate_priority
    candidates: list[int] = [*range(priority - 1, -1, -1), *range(priority + 1, PRIORITIES)]
    return next(candidate for candidate in candidates if candidate not in parameters.cnpv)


def port_rules(
    parameters: QCNEdgeParameters,
    modes: Sequence[DefenceMode],
    *,
    regeneration: Sequence[int] = UNCHANGED,
) -> DefenceRules:
    """Return the rules of a port with the given modes and priority regeneration table.

    Raises ParameterError unless ``regeneration`` contains eight priorities.
    """
    if len(regeneration) != PRIORITIES or not set(regeneration) <= set(UNCHANGED):
        raise ParameterError(name="regeneration", needed="eight priorities 0 to 7", got=str(regeneration))
    defended = {p for p in range(PRIORITIES) if modes[p] is not DefenceMode.DISABLED}
    keeps_out = tuple(p not in defended and regeneration[p] in defended for p in range(PRIORITIES))
    return DefenceRules(
        modes=tuple(modes),
        received=tuple(
            alternate_priority(parameters, p)
            if modes[p] is DefenceMode.EDGE
            else p
            if p in defended or keeps_out[p]
            else regeneration[p]
            for p in range(PRIORITIES)
        ),
        keeps_out=keeps_out,
        strips=tuple(mode in (DefenceMode.INTERIOR, DefenceMode.EDGE) for mode in modes),
    )


def receive(
    edge: QCNEdge, rules: DefenceRules, octets: bytes, *, ethertypes: EtherTypes = DEFAULT
) -> tuple[bytes, int]:
    """Return a received frame with the priority by the rules in the outermost VLAN tag, and this priority.

    An untagged frame is unchanged and counts as priority 0.
    """
    priority = received_priority(octets, ethertypes=ethertypes)
    ruled = rules.received[priority]
    count_received(edge, rules, priority, 1)
    if ruled != priority:
        octets = with_priority(octets, ruled, ethertypes=ethertypes)
    return octets, ruled


def count_received(edge: QCNEdge, rules: DefenceRules, priority: int, frames: int) -> None:
    """Count frames that were received in ``priority``; this function does not change the frames."""
    edge.remapped_frames += frames * (rules.modes[priority] is DefenceMode.EDGE)
    edge.kept_out_frames += frames * rules.keeps_out[priority]


def transmit(
    edge: QCNEdge,
    rules: DefenceRules,
    octets: bytes,
    priority: int,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a frame for transmission in ``priority``, without CN-TAG if the mode removes CN-TAGs."""
    if not rules.strips[priority]:
        return octets
    stripped = strip_cn_tag(octets, ethertypes=ethertypes)
    edge.cn_tags_stripped += stripped is not octets
    return stripped


def convert(
    edge: QCNEdge,
    parameters: QCNEdgeParameters,
    octets: bytes,
    own_mac: bytes,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the customer's CNM for a CNM from the backbone to this edge bridge, or ``None`` if discarded.

    ``own_mac`` is the backbone address of the bridge. Each discarded CNM is counted by reason.
    """
    received = read_cnm(edge, octets, own_mac, ethertypes=ethertypes)
    if not isinstance(received, ReceivedCNM):
        return None
    converted = convert_cnm(received.frame, priority=parameters.cnm_priority)
    if converted is None:
        edge.cnms_inconvertible += 1
        return None
    customer = converted[Ethernet].dst
    if customer[0] & _GROUP_BIT or customer == own_mac:
        edge.cnms_misdirected += 1
        return None
    edge.cnms_converted += 1
    return encode(converted)


_INTERVAL_NS = 30 * NS_PER_S
_HOLD = 4
"""Value of msgTxHold, which multiplies the LLDP interval msgTxInterval (802.1AB 9.2.5)."""
_CHASSIS, _PORT, _TIME_TO_LIVE = 1, 2, 3
_BY_MAC, _LOCAL = b"\x04", b"\x07"
_Speaker = tuple[bytes, bytes, bytes]
"""Identity of an LLDP sender: source address, chassis identifier and port identifier."""


class QCNDomainEdge:
    """The port of a bridge between a CN domain and a host, as a `mechanisms.api.machine.DomainEdge`.

    If ``cnpv`` is set, the defence mode of each priority decides about tags and priorities; ``rules`` are the
    effects of the modes on frames. The last LLDP sender decides the modes. A port should have only one LLDP
    sender. If two senders alternate, ``warnings`` contains a warning. CNMs to the address of the port are
    from a backbone, and are converted to CNMs for the customer.
    """

    def __init__(
        self, parameters: QCNEdgeParameters, *, mac: bytes, port: str, ethertypes: EtherTypes
    ) -> None:
        self.record: QCNEdge = new_record(QCNEdge)
        self.parameters = parameters
        self.changes: int = 0
        self.lldp_frames: int = 0
        self.malformed: int = 0
        self.speaker_changes: int = 0
        self.warnings: tuple[str, ...] = ()
        self._speaker: _Speaker | None = None
        self._former: _Speaker | None = None
        self._mac = mac
        self._port = port
        self._ethertypes = ethertypes
        self._neighbour: CongestionNotificationTLV | None = None
        self._expires_ns = NEVER_NS
        self._is_defended = bool(parameters.cnpv)
        self._next_lldp_ns = 0 if self._is_defended else NEVER_NS
        self.rules: DefenceRules = self._rules()

    def _rules(self) -> DefenceRules:
        return port_rules(self.parameters, defence_modes(self.parameters, self._neighbour))

    @property
    def due_ns(self) -> int:
        """Next time to call `on_timer`; NEVER_NS without defence."""
        return min(self._next_lldp_ns, self._expires_ns)

    @property
    def strips(self) -> Sequence[bool] | None:
        """Whether frames to the host lose their CN-TAGs, by priority; ``None`` means all frames."""
        return self.rules.strips if self._is_defended else None

    @property
    def received(self) -> Sequence[int]:
        """New priority of a frame from the host, by the priority in the frame."""
        return self.rules.received

    def on_timer(self, now_ns: int) -> bytes | None:
        """Remove an expired neighbour; return the LLDP frame to send now, or ``None``."""
        if now_ns >= self._expires_ns:
            self._set_neighbour(None, NEVER_NS)
        if now_ns < self._next_lldp_ns:
            return None
        self._next_lldp_ns = now_ns + _INTERVAL_NS
        return self._frame()

    def take_from_net(self, octets: bytes) -> tuple[bool, bytes | None]:
        """Process LLDP and CNMs; return whether the frame was for the edge, and a converted CNM."""
        if octets[:6] == self._mac:
            return True, convert(self.record, self.parameters, octets, self._mac, ethertypes=self._ethertypes)
        return self._is_lldp(octets), None

    def take_from_host(self, octets: bytes, now_ns: int) -> bool:
        """Process LLDP from the neighbour; return whether the frame was LLDP."""
        is_lldp = self._is_lldp(octets)
        if is_lldp:
            self._on_lldp(octets, now_ns)
        return is_lldp

    def _is_lldp(self, octets: bytes) -> bool:
        """Return whether a frame is LLDP for this port."""
        ethertype = octets[_TYPE_AT : _TYPE_AT + TYPE_OCTETS]
        return self._is_defended and ethertype == self._ethertypes.lldp.to_bytes(2)

    def count_entering(self, priority: int, frames: int) -> None:
        """Count frames from the host that already have the priority by the rules."""
        count_received(self.record, self.rules, priority, frames)

    def counters(self) -> dict[str, int]:
        """Return the counters of LLDP frames, sender changes and mode changes."""
        if not self._is_defended:
            return {}
        return {
            "lldp_frames": self.lldp_frames,
            "lldp_malformed": self.malformed,
            "lldp_speaker_changes": self.speaker_changes,
            "mode_changes": self.changes,
        }

    def mechanism_counters(self) -> dict[str, int]:
        """Return the counters of frames and CNMs."""
        record: Any = self.record
        return {name: int(record[name]) for name in record.dtype.names}

    def _on_lldp(self, octets: bytes, now_ns: int) -> None:
        """Process an LLDP frame with arbitrary content from the neighbour."""
        try:
            layers = decode(octets, ethertypes=self._ethertypes).layers
        except DecodeError:
            self.malformed += 1
            return
        self.lldp_frames += 1
        ttl_s, tlv = 0, None
        names = {_CHASSIS: b"", _PORT: b""}
        for layer in layers:
            if isinstance(layer, CongestionNotificationTLV):
                tlv = tlv or layer
            elif isinstance(layer, TLV) and layer.type in names:
                names[layer.type] = layer.value
            elif isinstance(layer, TLV) and layer.type == _TIME_TO_LIVE and len(layer.value) >= 2:
                ttl_s = int.from_bytes(layer.value[:2])
        self._note_speaker((octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS], names[_CHASSIS], names[_PORT]))
        # A time to live of 0 ends the advertisement (802.1AB 9.2.7.7.1).
        alive = tlv if ttl_s else None
        self._set_neighbour(alive, now_ns + ttl_s * NS_PER_S if alive is not None else NEVER_NS)

    def _note_speaker(self, speaker: _Speaker) -> None:
        """Count a change of the LLDP sender, and add a warning if two senders alternate."""
        if self._speaker is None:
            self._speaker = speaker
        if speaker == self._speaker:
            return
        self.speaker_changes += 1
        if speaker == self._former:
            # The previous sender is active again, so neither sender has replaced the other.
            one, other = sorted((speaker[0].hex(":"), self._speaker[0].hex(":")))
            text = f"two LLDP speakers alternate at {self._port}, {one} and {other}: the last one decides"
            self.warnings = (f"{text} the defence mode",)
        self._former, self._speaker = self._speaker, speaker

    def _set_neighbour(self, neighbour: CongestionNotificationTLV | None, expires_ns: int) -> None:
        self._neighbour, self._expires_ns = neighbour, expires_ns
        rules = self._rules()
        if rules != self.rules:
            self.rules = rules
            self.changes += 1
            # Send a change now instead of at the next interval.
            self._next_lldp_ns = 0

    def _frame(self) -> bytes:
        ttl_s = _INTERVAL_NS * _HOLD // NS_PER_S
        tlvs = [
            TLV(type=_CHASSIS, length=7, value=_BY_MAC + self._mac),
            TLV(type=_PORT, length=1 + len(self._port), value=_LOCAL + self._port.encode()),
            TLV(type=_TIME_TO_LIVE, length=2, value=ttl_s.to_bytes(2)),
            advertisement(self.parameters, self.rules.modes),
            TLV(),
        ]
        header = Ethernet(dst=DESTINATION, src=self._mac, type=self._ethertypes.lldp)
        frame = Frame(layers=(header, *tlvs), ethertypes=self._ethertypes)
        return encode(frame).ljust(MIN_OCTETS, b"\0")
