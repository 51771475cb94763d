"""Neighbours by LLDP: the stations on each interface, and the lossless priorities that DCBX advertises.

The latest LLDPDU of a station counts. A shutdown LLDPDU, with a time to live of 0, does not remove any
information.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.frames.capture.batch import Interface
from ecmproto.frames.columns.layers import frames_of
from ecmproto.frames.columns.walk import decoded_frame
from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.frames.stats.statistics import CEE_DIALECT, CIN_DIALECT, QAZ, AppPriority, Neighbour
from ecmproto.frames.stats.tally import CountedBatch, address_octets, usable_times
from ecmproto.wire.codec.frame import Frame, decode_lax
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEE_ETHERTYPE,
    CEE_PORT,
    CEEPFC,
    CIN,
    DSCP,
    EITHER_PORT,
    ETHERTYPE,
    STRICT,
    STRICT_GROUP,
    TCP_PORT,
    UDP_PORT,
    Application,
    Applications,
    CEEApplication,
    CEEGroups,
    ETSConfiguration,
    ETSRecommendation,
    PFCConfiguration,
)
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.lldp import TLV, CongestionNotificationTLV, LLDPPart
from ecmproto.wire.formats.text import mac_text

MAX_NEIGHBOURS = 1024
"""Maximum number of stations. A station that is seen on two interfaces counts twice."""
MAX_OCTETS = 1 << 13
"""Maximum length of a frame that is decoded, in octets. No LLDPDU is longer."""
NO_TIME = -(1 << 63)
"""Time of a frame whose record has no time."""
LLDP_FIELD = "lldp.tlv.type"
"""Column that contains a value for each LLDP frame."""

_CHASSIS, _PORT, _TIME_TO_LIVE, _SYSTEM_NAME = 1, 2, 3, 5
_CHASSIS_MAC, _PORT_MAC = 4, 3
"""Subtypes of the identifiers that are MAC addresses."""
_MAC_OCTETS = 6
_SELECTORS = {
    ETHERTYPE: "ethertype", TCP_PORT: "tcp port", UDP_PORT: "udp port", EITHER_PORT: "port", DSCP: "dscp"
}  # fmt: skip
_CEE_SELECTORS = {CEE_ETHERTYPE: "ethertype", CEE_PORT: "port"}


@plain_value
class Latest(NamedTuple):
    """Number of LLDP frames of a station on an interface, and the latest of these frames."""

    frames: int
    number: int
    time_ns: int
    octets: bytes
    """Octets of the latest frame. If the following frame has equal octets, it is not decoded again."""
    lldpdu: bytes


class NeighbourCounts:
    """A counter of LLDP frames by interface and station."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, int], Latest] = {}
        """Latest frames by interface and source address, which is 0 on a link layer without addresses."""
        self.left_out: int = 0

    def add(self, counted: CountedBatch, interfaces: Sequence[Interface], ethertypes: EtherTypes) -> None:
        """Count the LLDP frames of a batch."""
        rows = counted.columns[LLDP_FIELD].rows
        if not len(rows):
            return
        rows = np.flatnonzero(np.bincount(rows)).astype(rows.dtype)  # np.unique imports numpy.ma
        batch, sources = counted.batch.select(rows), counted.addresses("eth.src", rows)
        frames = frames_of(batch, interfaces)
        columns = (
            batch.interface, sources, batch.numbers + 1, np.where(usable_times(batch), batch.time_ns, NO_TIME)
        )  # fmt: skip
        values = zip(*(column.tolist() for column in columns), strict=True)
        for row, (octets, (interface, source, number, time_ns)) in enumerate(
            zip(batch.frames(), values, strict=True)
        ):
            before = self.latest.get((interface, source))
            if (before is None and len(self.latest) == MAX_NEIGHBOURS) or len(octets) > MAX_OCTETS:
                self.left_out += 1
                continue
            count, lldpdu = (0, b"") if before is None else (before.frames, before.lldpdu)
            if before is None or before.octets != octets:
                frame = decoded_frame(frames, ethertypes, row)
                goodbye = any(tlv.type == _TIME_TO_LIVE and tlv.value == bytes(2) for tlv in frame.all(TLV))
                parts = [value.build() for value in frame.layers if isinstance(value, LLDPPart)]
                lldpdu = lldpdu if goodbye else b"".join(parts) or lldpdu
            self.latest[interface, source] = Latest(count + 1, number, time_ns, octets, lldpdu)

    def join(self, later: NeighbourCounts, interfaces: int = 0, frames: int = 0) -> None:
        """Add the counts of ``later``, a counter of later frames.

        ``interfaces`` and ``frames`` are added to the interface numbers and the frame numbers of ``later``.
        """
        for (interface, source), latest in later.latest.items():
            key = interface + interfaces, source
            before = self.latest.get(key)
            if before is None and len(self.latest) == MAX_NEIGHBOURS:
                self.left_out += latest.frames
                continue
            count, lldpdu = (0, b"") if before is None else (before.frames, before.lldpdu)
            self.latest[key] = latest._replace(
                frames=count + latest.frames, number=latest.number + frames, lldpdu=latest.lldpdu or lldpdu
            )
        self.left_out += later.left_out

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Stations, sorted by interface and address."""
        return tuple(
            neighbour_of(interface, address_octets(source), latest)
            for (interface, source), latest in sorted(self.latest.items())
        )


def neighbour_of(interface: int, source: bytes | None, latest: Latest) -> Neighbour:
    """Return a station as its latest LLDPDU describes it."""
    frame = decode_lax(latest.lldpdu, first=TLV)
    identity = {tlv.type: tlv.value for tlv in reversed(frame.all(TLV))}
    ets, groups, recommended = frame.get(ETSConfiguration), frame.get(CEEGroups), frame.get(ETSRecommendation)
    pfc = frame.get(PFCConfiguration) or frame.get(CEEPFC)
    shares = ets or groups
    congestion = frame.get(CongestionNotificationTLV)
    return Neighbour(
        interface=interface,
        source=source,
        chassis=_identifier(identity.get(_CHASSIS, b""), _CHASSIS_MAC),
        port=_identifier(identity.get(_PORT, b""), _PORT_MAC),
        system=identity.get(_SYSTEM_NAME, b"").decode("utf-8", errors="replace"),
        frames=latest.frames,
        dialects=_dialects(frame),
        pfc_enabled=None if pfc is None else priorities_of(pfc.enable),
        pfc_willing=None if pfc is None else bool(pfc.willing),
        traffic_classes=None if shares is None else shares.classes,
        bandwidths=None if shares is None else shares.bandwidths,
        strict=() if shares is None else _strict(ets, groups),
        ets_willing=None if shares is None else bool(shares.willing),
        recommended_bandwidths=None if recommended is None else recommended.bandwidths,
        applications=tuple(_applications(frame)),
        cnpvs=None if congestion is None else priorities_of(congestion.cnpv),
    )


def _dialects(frame: Frame) -> tuple[str, ...]:
    qaz = any(cls in frame for cls in (ETSConfiguration, ETSRecommendation, PFCConfiguration, Applications))
    versions = {tlv.proto for tlv in frame.all(CEE)}
    dialects = (QAZ, qaz), (CEE_DIALECT, bool(versions - {CIN})), (CIN_DIALECT, CIN in versions)
    return tuple(name for name, is_present in dialects if is_present)


def priorities_of(bits: int) -> tuple[int, ...]:
    """Return the priorities whose bit is set."""
    return tuple(priority for priority in range(8) if bits >> priority & 1)


def _strict(ets: ETSConfiguration | None, groups: CEEGroups | None) -> tuple[int, ...]:
    """Return the priorities with a strict traffic class."""
    if ets is not None:
        algorithms = dict(enumerate(ets.algorithms))
        return tuple(n for n, number in enumerate(ets.classes) if algorithms.get(number) == STRICT)
    of_group = () if groups is None else groups.classes
    return tuple(n for n, number in enumerate(of_group) if number == STRICT_GROUP)


def _applications(frame: Frame) -> Iterable[AppPriority]:
    for value in frame.layers:
        if isinstance(value, Application):
            selector = _SELECTORS.get(value.selector, f"selector {value.selector}")
            yield AppPriority(selector=selector, protocol=value.protocol, priorities=(value.priority,))
        elif isinstance(value, CEEApplication):
            selector = _CEE_SELECTORS.get(value.selector, f"selector {value.selector}")
            priorities = priorities_of(value.priorities)
            yield AppPriority(selector=selector, protocol=value.protocol, priorities=priorities)


def _identifier(value: bytes, mac_subtype: int) -> str:
    """Return a chassis or port identifier as text: a MAC address, a text, or hexadecimal digits."""
    subtype, octets = value[:1], value[1:]
    if subtype == bytes([mac_subtype]) and len(octets) == _MAC_OCTETS:
        return mac_text(octets)
    text = octets.decode("utf-8", errors="replace")
    return text if text.isprintable() else octets.hex()
